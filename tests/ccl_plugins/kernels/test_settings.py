"""What kernels make of their arguments, what they declare and what they say of bad ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.kernel_cases import KERNELS, values

from ccl_plugins.kernels import (
    RBF,
    Cosine,
    Delta,
    Jaccard,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Product,
    Sum,
)


@pytest.mark.parametrize(
    ("kernel", "printed"),
    [
        (RBF(), "RBF(scale=1.0)"),
        (RBF("median"), "RBF(scale='median')"),
        (Laplacian(), "Laplacian(scale=1.0, norm=2)"),
        (Linear(), "Linear(scale=1.0, normalize=False)"),
        (Cosine(), "Cosine()"),
        (Polynomial(), "Polynomial(degree=3, coef0=0.0, scale=1.0, normalize=False)"),
        (Delta(), "Delta()"),
        (Jaccard(), "Jaccard()"),
        (Sum([RBF(), Delta()]), "Sum(kernels=[RBF(scale=1.0), Delta()], weights=[1.0, 1.0])"),
        (Sum([RBF()], (2,)), "Sum(kernels=[RBF(scale=1.0)], weights=[2])"),
        (Product((RBF(),)), "Product(kernels=[RBF(scale=1.0)])"),
        (Product(on={"age": RBF()}), "Product(on={'age': RBF(scale=1.0)})"),
        (Precomputed([[1.0]]), "Precomputed(..., positive_definite=False)"),
        (
            Precomputed("a.npz", positive_definite=True),
            "Precomputed('a.npz', positive_definite=True)",
        ),
    ],
)
def test_a_kernel_prints_its_settings_and_defaults(kernel, printed):
    assert repr(kernel) == printed


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RBF("mean"), "scale must be a number above 0 or \"median\", not 'mean'"),
        (lambda: Laplacian(math.inf), "scale must be a finite number above 0, not inf"),
        (
            lambda: Linear("median"),
            "scale must be a number above 0, not 'median': the linear kernel has no distances to take"
            " a median of; normalize=True makes the kernel independent of the scale",
        ),
        (
            lambda: Polynomial(scale="median"),
            "scale must be a number above 0, not 'median': the polynomial kernel has no distances to"
            " take a median of; normalize=True makes the kernel independent of the scale",
        ),
        (lambda: Product([]), "Product needs one or more kernels, not []"),
        (lambda: Sum(()), "Sum needs one or more kernels, not ()"),
        (
            lambda: Sum([RBF()], [1, 2]),
            "weights must hold one number for each of 1 kernels, not [1, 2]",
        ),
        (
            lambda: Sum([RBF(), RBF()], [1, 0]),
            "weights[1] must be a finite number above 0, not 0",
        ),
        (
            lambda: Precomputed("a.pt"),
            "matrix must be a tensor, a .npy or a .npz file, not 'a.pt'",
        ),
        (lambda: Precomputed(torch.ones(3)), "matrix must be square, (N, N), not (3,)"),
        (lambda: Precomputed(torch.ones(2, 3)), "matrix must be square, (N, N), not (2, 3)"),
        (lambda: Precomputed(torch.ones(2, 2, 2)), "matrix must be square, (N, N), not (2, 2, 2)"),
    ],
)
def test_what_is_wrong_is_quoted(build, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        build()
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["sum", "product"])
def test_a_kernel_that_declares_nothing_is_refused_by_the_name_of_the_combination(name):
    cls = {"sum": Sum, "product": Product}[name]
    with pytest.raises(TypeError, match=f"^{cls.__name__} needs a kernel with the member positive"):
        cls([RBF(), torch.dot])


@pytest.mark.parametrize(
    "index", [torch.ones(2), torch.ones(2, 1).long(), torch.tensor(1), torch.tensor([True, False])]
)
def test_precomputed_refuses_anything_but_whole_numbers_on_either_side(index):
    kernel, good = Precomputed(torch.eye(3)), torch.arange(2)
    for pair in ((index, good), (good, index)):
        with pytest.raises(TypeError) as error:
            kernel(*pair)
        assert str(error.value) == (
            f"precomputed needs indices of samples, (n,) whole numbers, not {tuple(index.shape)}"
            f' {index.dtype}: give it the condition "instance"'
        )


def test_precomputed_takes_whole_numbers_of_any_width_and_adds_repeated_entries():
    places = torch.tensor([[2, 0, 0, 2], [1, 1, 0, 1]])
    graph = torch.sparse_coo_tensor(
        places, torch.tensor([1, 2, 3, 4]), (3, 3), check_invariants=True
    )
    for kernel in (Precomputed(graph), Precomputed(graph.to_dense())):
        found = kernel(torch.arange(3, dtype=torch.int8), torch.arange(3, dtype=torch.int32))
        torch.testing.assert_close(found, torch.tensor([[3.0, 2, 0], [0, 0, 0], [0, 5, 0]]))
    wide = Precomputed(torch.eye(2, dtype=torch.float64))
    assert wide(torch.arange(2), torch.arange(2)).dtype == torch.float64
    csr = Precomputed(graph.to_dense().to_sparse_csr())
    torch.testing.assert_close(csr(torch.arange(3), torch.arange(3)), found)


def test_a_stored_matrix_is_read_at_the_first_look_up_from_the_home_folder_too(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    kernel, index = Precomputed("~/graph.npy"), torch.arange(2)
    np.save(tmp_path / "graph.npy", np.array([[1, 2], [3, 4]]))
    found = kernel(index, index)
    torch.testing.assert_close(found, torch.tensor([[1.0, 2], [3, 4]]))
    (tmp_path / "graph.npy").unlink()
    torch.testing.assert_close(kernel(index, index), found)


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "graph.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickle"):
        Precomputed(str(tmp_path / "graph.npy"))(torch.arange(1), torch.arange(1))


def test_an_archive_of_several_arrays_is_quoted(tmp_path):
    file = tmp_path / "two.npz"
    np.savez(file, a=np.eye(2), b=np.eye(2))
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        Precomputed(str(file))(torch.arange(2), torch.arange(2))
    assert str(error.value) == (
        f"{file} holds ['a', 'b']: give a file with one array, or one of scipy.sparse.save_npz"
    )


@pytest.mark.parametrize("build", [RBF, Laplacian, lambda scale: Laplacian(scale, norm=1)])
def test_the_median_is_taken_over_at_most_512_samples_evenly_spaced(build):
    z = torch.rand(1200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 4
    a, scaled = z[:4], build("median")
    for count, step in ((512, 1), (513, 2), (1024, 2), (1025, 3), (1200, 3)):
        chosen = z[:count:step]
        off = -build(1.0)(chosen, chosen)[~torch.eye(len(chosen), dtype=torch.bool)].log()
        expected = build(off.median().item())(a, z[:count])
        torch.testing.assert_close(scaled(a, z[:count]), expected)


@pytest.mark.parametrize(("kernel", "share"), [(RBF, -1), (Laplacian, -1)])
def test_the_median_of_class_ids_is_the_distance_of_two_different_ids(kernel, share):
    ids = torch.tensor([0, 0, 0, 0, 1])
    expected = torch.ones(5, 5)
    expected[4, :4] = expected[:4, 4] = math.exp(share)
    torch.testing.assert_close(kernel("median")(ids, ids), expected)


def test_a_median_carries_no_gradient():
    z = values(4).requires_grad_()
    fixed = RBF("median")(z, z)
    scale = (z.detach()[:, None] - z.detach()).square().sum(-1)
    scale = scale[~torch.eye(4, dtype=torch.bool)].median()
    (found,) = torch.autograd.grad(fixed.sum(), z)
    (expected,) = torch.autograd.grad(RBF(float(scale))(z, z).sum(), z)
    torch.testing.assert_close(found, expected)


def test_weights_multiply_each_kernel_in_order():
    a, b = values(3), values(4, seed=1)
    found = Sum([RBF(), Linear(), Cosine()], [0.5, 2, 3])(a, b)
    torch.testing.assert_close(found, 0.5 * RBF()(a, b) + 2 * Linear()(a, b) + 3 * Cosine()(a, b))
    torch.testing.assert_close(Sum([RBF(), Cosine()])(a, b), RBF()(a, b) + Cosine()(a, b))


@pytest.mark.parametrize(
    "kernel", [Linear(1.7), Polynomial(degree=2, coef0=0.7, scale=1.7), Polynomial(degree=1)]
)
@pytest.mark.parametrize("of", [torch.arange(4) % 3, values(4)[:, 0]], ids=["ids", "scalars"])
def test_a_scale_divides_class_ids_and_scalars_too(kernel, of):
    rows = torch.nn.functional.one_hot(of).double() if of.dtype == torch.int64 else of[:, None]
    base = rows @ rows.T
    if isinstance(kernel, Polynomial):
        base = (base + kernel.coef0) ** kernel.degree
    torch.testing.assert_close(kernel(of, of).double(), base / kernel.scale)


def test_normalized_kernels_are_free_of_scale_and_0_at_a_zero_vector():
    z = values(4)
    z[1] = 0
    for small, large in (
        (Linear(normalize=True), Linear(9.0, normalize=True)),
        (Polynomial(degree=2, normalize=True), Polynomial(degree=2, scale=9.0, normalize=True)),
    ):
        gram = small(z, z)
        torch.testing.assert_close(gram, large(z, z))
        assert not gram[1].any()
        torch.testing.assert_close(gram.diagonal()[[0, 2, 3]], torch.ones(3).double())
        torch.testing.assert_close(small.features(z) @ small.features(z).T, gram)


@pytest.mark.parametrize("name", KERNELS)
def test_what_kernels_declare_does_not_change_unnoticed(name):
    assert KERNELS[name].positive_definite is True
    assert KERNELS[name].one_hot is True


@pytest.mark.parametrize("build", [RBF, Laplacian])
def test_where_all_values_are_equal_the_median_is_1(build):
    a, b = values(3), torch.ones(4, 3, dtype=torch.float64)
    torch.testing.assert_close(build("median")(a, b), build(1.0)(a, b))


@pytest.mark.parametrize("coef0", [0.0, 0.7])
def test_a_polynomial_of_degree_1_has_the_values_as_its_features(coef0):
    z, kernel = values(5), Polynomial(degree=1, coef0=coef0, scale=2.0)
    assert kernel.features(z).shape[1] == kernel.rank(z) == 3 + (coef0 > 0)
    torch.testing.assert_close(kernel.features(z)[:, :3], z / 2**0.5)
    torch.testing.assert_close(kernel.features(z) @ kernel.features(z).T, kernel(z, z))

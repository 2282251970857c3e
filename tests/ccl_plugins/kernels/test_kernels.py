"""The kernels: their laws, their numbers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import slow_loops
from support.kernel_cases import KERNELS, values
from torch.nn.functional import one_hot

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

UNIT_DIAGONAL = ["rbf", "laplacian", "delta"]
every_kernel = pytest.mark.parametrize("name", KERNELS)


@every_kernel
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (values(5), values(7, seed=1)),
        (values(5).float(), values(7, seed=1).float()),
        (values(5)[:, 0], values(7, seed=1)[:, 0]),
        (torch.arange(5) % 3, torch.arange(7) % 3),
        (values(5) > 0, values(7, seed=1) > 0),
    ],
    ids=["vectors", "float32", "scalars", "class ids", "0/1"],
)
def test_gives_one_finite_number_per_pair(name, a, b):
    gram = KERNELS[name](a, b)
    assert gram.shape == (5, 7)
    assert gram.isfinite().all()
    assert gram.dtype == (a.dtype if a.is_floating_point() else torch.float32)


@every_kernel
def test_is_symmetric_and_positive_definite_as_declared(name):
    for z in (values(20), values(20)[:, 0], torch.arange(20) % 4, (values(20, 6) > 0).double()):
        gram = KERNELS[name](z, z).double()
        torch.testing.assert_close(gram, gram.T)
        assert KERNELS[name].positive_definite
        assert torch.linalg.eigvalsh(gram)[0] > -1e-6 * gram.diagonal().max()


@every_kernel
def test_keeps_its_true_diagonal(name):
    z = values()
    diagonal = KERNELS[name](z, z).diagonal()
    if name.split()[0] in UNIT_DIAGONAL:
        torch.testing.assert_close(diagonal, torch.ones(12).double(), rtol=0, atol=0)
    elif "normalized" in name:
        torch.testing.assert_close(diagonal, torch.ones(12).double())
    elif "median" not in name:
        alone = torch.stack([KERNELS[name](row[None], row[None].clone())[0, 0] for row in z])
        torch.testing.assert_close(diagonal, alone)


@every_kernel
def test_class_ids_count_as_one_hot_vectors(name):
    assert KERNELS[name].one_hot
    a, b = torch.tensor([0, 1, 2, 2, 1]), torch.tensor([2, 2, 0, 1])
    torch.testing.assert_close(
        KERNELS[name](a, b).double(),
        KERNELS[name](one_hot(a, 3).double(), one_hot(b, 3).double()),
        rtol=1e-6,
        atol=1e-12,
    )


@pytest.mark.parametrize("name", [k for k in KERNELS if hasattr(KERNELS[k], "features")])
def test_features_have_the_kernel_as_inner_products(name):
    kernel, a, b = KERNELS[name], values(5), values(7, seed=1)
    features = kernel.features(a)
    assert features.shape == (5, kernel.rank(a))
    torch.testing.assert_close(
        features @ kernel.features(b).T, kernel(a, b), rtol=1e-12, atol=1e-12
    )


def test_a_kernel_made_of_kernels_has_only_what_all_of_them_have():
    part = Sum([Linear(), RBF()])
    assert not hasattr(part, "features")
    assert not hasattr(Product([Linear(), part]), "features")
    index = Precomputed(torch.eye(3))
    assert not Product([RBF(), index]).positive_definite
    assert not Sum([RBF(), index]).one_hot


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "polynomial", "cosine"])
def test_equals_its_formula_one_number_at_a_time(kernel):
    z = values()
    made = {"rbf": RBF, "laplacian": Laplacian, "linear": Linear, "polynomial": Polynomial}
    fast = Cosine() if kernel == "cosine" else made[kernel](scale=1.7)
    torch.testing.assert_close(
        fast(z, z), slow_loops.gram(kernel, z, scale=1.7), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("kernel", [RBF(100.0), Laplacian(10.0)], ids=["rbf", "laplacian"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_far_off_centre_are_those_near_it(kernel, dtype):
    near = (values(30, 8) * 64).round() / 16  # exact in float32, after the shift too
    far = (near + 4096).to(dtype)
    tolerance = {torch.float32: 2e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(
        kernel(far, far).double(), kernel(near, near), rtol=tolerance, atol=tolerance
    )
    assert (kernel(far, far).diagonal() == 1).all()
    assert (kernel(far, far) <= 1).all()


@pytest.mark.parametrize("kernel", [RBF("median"), Laplacian("median"), Laplacian("median", 1)])
def test_the_median_scale_puts_half_of_the_differing_pairs_above_one_over_e(kernel):
    z = values(31, 4)
    gram = kernel(z, z)
    off = gram[~torch.eye(31, dtype=torch.bool)]
    torch.testing.assert_close(off.nanmedian(), torch.tensor(np.exp(-1)), rtol=1e-9, atol=0)
    repeated = torch.cat([z, z[:1].expand(90, -1)])
    assert kernel(repeated, repeated).isfinite().all()
    torch.testing.assert_close(kernel(5 * z, 5 * z), gram)  # free of units


@pytest.mark.parametrize("kernel", [RBF("median"), Laplacian("median")])
def test_the_median_of_values_that_mostly_differ_by_rounding_is_of_those_that_differ(kernel):
    generator = torch.Generator().manual_seed(0)
    far = (torch.arange(40) % 10 == 0).long()
    z = torch.randn(2, 8, generator=generator)[far] + 1e-6 * torch.randn(40, 8, generator=generator)
    gram = kernel(z, z)
    torch.testing.assert_close(
        gram[far == 1][:, far == 0].median(), torch.tensor(np.exp(-1)).float()
    )
    torch.testing.assert_close(gram[far == 0][:, far == 0], torch.ones(36, 36))


def test_the_median_of_equal_values_is_no_division_by_zero():
    z = torch.ones(6, 2)
    assert (RBF("median")(z, z) == 1).all()


@every_kernel
def test_gradients_are_finite_where_values_coincide(name):
    z = torch.cat([values(4), values(4)]).requires_grad_()
    gram = KERNELS[name](z, z)
    if gram.requires_grad:
        (grad,) = torch.autograd.grad(gram.sum(), z)
        assert grad.isfinite().all()


def test_delta_needs_every_entry_to_be_equal():
    z = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0 + 1e-7], [-0.0, 1.0]])
    expected = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]).float()
    torch.testing.assert_close(Delta()(z, z), expected)


def test_jaccard_is_the_share_of_attributes_in_common():
    a = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    b = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    torch.testing.assert_close(Jaccard()(a, b), torch.tensor([[1 / 3, 1, 0], [0, 0, 1]]))


@pytest.mark.parametrize("form", ["tensor", "rows", "npy", "npz", "sparse tensor", "sparse npz"])
def test_precomputed_looks_up_by_index(form, tmp_path):
    graph = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.25, 2.0]])
    given = graph
    if form == "rows":
        given = graph.tolist()
    elif form == "sparse tensor":
        given = graph.to_sparse()
    elif form != "tensor":
        given = str(tmp_path / f"graph.{form[-3:]}")
        if form == "sparse npz":
            from scipy import sparse

            graph[2] = graph[:, 2] = 0  # no entry says how large it is
            sparse.save_npz(given, sparse.csr_matrix(graph.numpy()))
        else:
            (np.save if form == "npy" else np.savez)(given, graph.numpy())
    a, b = torch.tensor([2, 0, 2]), torch.tensor([1, 2])
    torch.testing.assert_close(Precomputed(given)(a, b), graph[a][:, b])
    with pytest.raises(IndexError):
        Precomputed(given)(a, torch.tensor([3]))


def test_a_graph_without_edges_is_0_everywhere():
    index = torch.arange(3)
    empty = Precomputed(torch.zeros(3, 3).to_sparse())
    torch.testing.assert_close(empty(index, index), torch.zeros(3, 3))


def test_a_degree_that_is_not_whole_is_refused():
    with pytest.raises(TypeError, match="degree must be a whole number, not nan"):
        Polynomial(degree=float("nan"))


def test_precomputed_refuses_what_is_no_matrix_and_no_index(tmp_path):
    with pytest.raises(ValueError, match=r"square, \(N, N\), not \(2, 3\)"):
        Precomputed(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"not 'graph.pt'"):
        Precomputed("graph.pt")
    with pytest.raises(TypeError, match='give it the condition "instance"'):
        Precomputed(torch.eye(3))(torch.ones(2), torch.ones(2))
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(2))
    with pytest.raises(ValueError, match=r"holds \['a', 'b'\]"):
        Precomputed(str(tmp_path / "two.npz"))(torch.arange(2), torch.arange(2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RBF(0.0), "scale must be a finite number above 0, not 0.0"),
        (lambda: RBF("mean"), "\"median\", not 'mean'"),
        (lambda: Laplacian(norm=3), "norm must be 1 or 2, not 3"),
        (lambda: Laplacian(0.0), "scale must be a finite number above 0, not 0.0"),
        (lambda: Linear("median"), "the linear kernel has no distances .* normalize=True"),
        (lambda: Polynomial(scale="median"), "the polynomial kernel has no .* normalize=True"),
        (lambda: Linear(0.0), "scale must be a finite number above 0"),
        (lambda: Polynomial(coef0=-1.0), "coef0 must be a finite number, 0 or more, not -1.0"),
        (lambda: Polynomial(degree=0), "degree must be 1 or more, not 0"),
        (lambda: Product([]), "one or more kernels"),
        (lambda: Sum([RBF()], [1.0, 2.0]), "one number for each of 1 kernels"),
        (lambda: Sum([RBF()], [-1.0]), r"weights\[0\] must be a finite number above 0"),
    ],
)
def test_a_value_out_of_range_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("name", KERNELS)
def test_radial_values_are_the_kernels_wherever_a_distance_determines_them(name):
    """The members that the diagonal, samplers by distance and combined kernels read."""
    kernel, z = KERNELS[name], values(5)
    radial = getattr(kernel, "radial", None)
    assert (radial is not None) == (name in ("rbf", "laplacian"))
    if radial is not None:
        square = (z[:, None] - z).square().sum(-1)
        torch.testing.assert_close(radial(square), kernel(z, z))


def test_a_combination_of_radial_kernels_is_radial():
    for kernel in (Sum([RBF(3.0), Laplacian(2.0)], [0.5, 2.0]), Product([RBF(), Laplacian()])):
        z = values(5)
        square = (z[:, None] - z).square().sum(-1)
        torch.testing.assert_close(kernel.radial(square), kernel(z, z))
    assert not hasattr(Sum([RBF(), Cosine()]), "radial")
    for kernel in (RBF("median"), Laplacian("median"), Laplacian(norm=1)):
        assert not hasattr(kernel, "radial"), kernel


def test_a_kernel_prints_its_settings(tmp_path):
    assert repr(RBF(0.5)) == "RBF(scale=0.5)"
    assert repr(Polynomial(degree=2, coef0=0.5)).startswith(
        "Polynomial(degree=2, coef0=0.5, scale=1.0"
    )
    assert repr(Precomputed("a.npy")) == "Precomputed('a.npy', positive_definite=False)"
    assert repr(Precomputed(torch.eye(2))) == "Precomputed(..., positive_definite=False)"


def test_a_sparse_file_with_entries_outside_of_its_matrix_is_refused(tmp_path):
    file = tmp_path / "graph.npz"
    parts = {"row": [0], "col": [7], "format": b"coo", "shape": [3, 3], "data": [1.0]}
    np.savez(file, **{key: np.array(part) for key, part in parts.items()})
    with pytest.raises((ValueError, RuntimeError), match=r"exceed|index|size"):
        Precomputed(str(file))(torch.arange(2), torch.arange(2))

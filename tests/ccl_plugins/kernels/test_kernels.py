"""The kernels: their laws, their numbers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import slow_loops
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

UNIT_DIAGONAL = ["rbf", "laplacian", "delta"]
every_kernel = pytest.mark.parametrize("name", KERNELS)


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


def test_a_combination_of_radial_kernels_is_radial():
    for kernel in (Sum([RBF(3.0), Laplacian(2.0)], [0.5, 2.0]), Product([RBF(), Laplacian()])):
        z = values(5)
        square = (z[:, None] - z).square().sum(-1)
        torch.testing.assert_close(kernel.radial(square), kernel(z, z))
    assert not hasattr(Sum([RBF(), Cosine()]), "radial")
    for kernel in (RBF("median"), Laplacian("median"), Laplacian(norm=1)):
        assert not hasattr(kernel, "radial"), kernel


def test_a_sparse_file_with_entries_outside_of_its_matrix_is_refused(tmp_path):
    file = tmp_path / "graph.npz"
    parts = {"row": [0], "col": [7], "format": b"coo", "shape": [3, 3], "data": [1.0]}
    np.savez(file, **{key: np.array(part) for key, part in parts.items()})
    with pytest.raises((ValueError, RuntimeError), match=r"exceed|index|size"):
        Precomputed(str(file))(torch.arange(2), torch.arange(2))

"""The conditional operator against stored numbers, against its definition, and against itself."""

from __future__ import annotations

import pytest
import torch
from support import slow_loops
from support.kernel_cases import KERNELS, values
from torch.nn.functional import one_hot

from ccl_plugins.kernels import RBF, Cosine, Delta, Laplacian, Linear, Polynomial, Precomputed, Sum
from ccl_plugins.numerics.conditional_operator import conditional_operator


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("m", [40, 4], ids=["many", "few"])
@pytest.mark.parametrize("kind", ["vectors", "class ids"])
def test_is_the_inverse_of_its_definition_in_every_form(name, kind, m):
    kernel, ridge = KERNELS[name], 0.1
    z = values(m) if kind == "vectors" else torch.randint(3, (m,), generator=torch.manual_seed(1))
    vectors = z if kind == "vectors" else one_hot(z, 3).double()
    expected = slow_loops.operator(kernel(vectors, vectors), ridge)
    weights = conditional_operator(kernel, z, ridge, dtype=torch.float64)
    torch.testing.assert_close(weights, expected, rtol=1e-9, atol=1e-10)
    some = conditional_operator(kernel, z, ridge, slice(1, 3), dtype=torch.float64)
    torch.testing.assert_close(some, weights[1:3])


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", ["vectors", "class ids"])
def test_samples_that_are_not_there_weigh_nothing(name, kind):
    z = values(12) if kind == "vectors" else torch.arange(12) % 3
    valid = torch.arange(12) % 4 != 3
    weights = conditional_operator(KERNELS[name], z, 0.1, valid=valid, dtype=torch.float64)
    assert (weights[~valid] == 0).all()
    assert (weights[:, ~valid] == 0).all()
    if "median" not in name:
        alone = conditional_operator(KERNELS[name], z[valid], 0.1, dtype=torch.float64)
        torch.testing.assert_close(weights[valid][:, valid], alone, rtol=1e-9, atol=1e-10)


def test_what_an_empty_place_holds_does_not_matter():
    z, valid = values(12), torch.arange(12) < 9
    garbage = torch.where(valid[:, None], z, torch.nan)
    for kernel in KERNELS.values():
        assert conditional_operator(kernel, garbage, 0.1, valid=valid).isfinite().all()


@pytest.mark.parametrize("name", ["rbf", "laplacian", "linear", "polynomial", "cosine"])
def test_float32_values_cost_float32_rounding_only(name):
    z = 50 * values(60, 6) + 1000
    kernel = KERNELS[name]
    exact = conditional_operator(kernel, z.float().double(), 0.01)
    torch.testing.assert_close(
        conditional_operator(kernel, z.float(), 0.01), exact.float(), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("z", [torch.zeros(4).long(), torch.ones(4, 2), torch.ones(4, 6)])
@pytest.mark.parametrize("kernel", [Linear(), Cosine(), Delta()])
def test_without_ridge_a_singular_kernel_matrix_gives_nan(kernel, z):
    assert conditional_operator(kernel, z, 0.0).isnan().all()


@pytest.mark.parametrize("z", [torch.arange(4), torch.eye(4)])
@pytest.mark.parametrize("kernel", [Linear(), RBF(), Delta()])
def test_without_ridge_a_regular_kernel_matrix_gives_the_identity(kernel, z):
    valid = torch.tensor([True, True, True, False])
    torch.testing.assert_close(conditional_operator(kernel, z, 0.0), torch.eye(4))
    there = conditional_operator(kernel, z, 0.0, valid=valid)
    torch.testing.assert_close(there, torch.diag(valid.float()))


def test_a_kernel_that_does_not_take_ids_as_one_hot_is_not_taken_to():
    gram = values(6, 9) @ values(6, 9).T
    index = torch.tensor([3, 1, 5, 0])
    for kernel in (Precomputed(gram), Sum([Precomputed(gram)])):
        weights = conditional_operator(kernel, index, 0.1, dtype=torch.float64)
        expected = slow_loops.operator(gram[index][:, index], 0.1)
        torch.testing.assert_close(weights, expected, rtol=1e-9, atol=1e-10)


def test_a_matrix_that_the_kernel_keeps_is_left_alone():
    kept = torch.eye(5).double()
    conditional_operator(lambda a, b: kept, values(5), 0.1)
    torch.testing.assert_close(kept, torch.eye(5).double(), rtol=0, atol=0)


def test_features_wider_than_the_samples_are_not_formed():
    class Wide(Polynomial):
        def features(self, a):
            raise AssertionError("formed")

    z = values(20, 30)
    weights = conditional_operator(Wide(3), z, 0.1)
    torch.testing.assert_close(weights, slow_loops.operator(Polynomial(3)(z, z), 0.1))


def test_landmarks_approach_the_exact_operator_where_the_kernel_is_wide():
    z, some, kernel = values(4096, 4), slice(100, 108), RBF(20.0)
    exact = solved_exactly(kernel, z, 0.1, some)
    near = conditional_operator(kernel, z, 0.1, some, landmarks=512)
    assert (near - exact).abs().max() < 1e-3 * exact.max()
    assert (near - exact).abs().sum() < 2e-4 * exact.abs().sum()


def test_landmarks_keep_a_samples_own_weight_where_the_kernel_is_narrow():
    z, some, kernel = values(600, 32), slice(100, 108), Laplacian("median")
    exact = solved_exactly(kernel, z, 0.01, some)
    near = conditional_operator(kernel, z, 0.01, some, landmarks=64)
    torch.testing.assert_close(near.diagonal(100), exact.diagonal(100), rtol=0.05, atol=0)


def solved_exactly(kernel, z, ridge, rows):
    k = kernel(z, z)
    factor = torch.linalg.cholesky(k.diagonal_scatter(k.diagonal() + ridge))
    return torch.cholesky_solve(k[:, rows], factor).T


def test_landmarks_are_taken_among_the_samples_that_are_there():
    z, valid = values(300), torch.arange(300) % 10 == 0
    exact = conditional_operator(RBF(9.0), z, 0.1, valid=valid)
    near = conditional_operator(RBF(9.0), z, 0.1, valid=valid, landmarks=30)
    torch.testing.assert_close(near, exact, rtol=0, atol=1e-6)
    more = conditional_operator(RBF(9.0), z, 0.1, valid=valid, landmarks=60)  # 30 of them twice
    torch.testing.assert_close(more, exact, rtol=0, atol=1e-6)
    assert (more[~valid] == 0).all()
    assert (more[:, ~valid] == 0).all()


def test_fewer_features_than_landmarks_are_exact():
    z = values(50, 3)
    torch.testing.assert_close(
        conditional_operator(Linear(), z, 0.1, landmarks=10), conditional_operator(Linear(), z, 0.1)
    )


@pytest.mark.parametrize("kernel", [RBF(), Cosine(), Polynomial(2)])
@pytest.mark.parametrize("z", [values(30), torch.arange(30) % 4], ids=["vectors", "class ids"])
def test_compiles_whole(kernel, z):
    def weights(z):
        return conditional_operator(kernel, z, 0.1)

    compiled = torch.compile(weights, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(z), weights(z))

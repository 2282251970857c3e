"""The conditional operator against stored numbers, against its definition, and against itself."""

from __future__ import annotations

import pytest
import torch
from support import slow_loops
from support.kernel_cases import KERNELS, values
from torch.nn.functional import one_hot

from ccl_plugins.kernels import RBF, Cosine, Delta, Laplacian, Linear, Polynomial, Precomputed, Sum
from ccl_plugins.numerics.conditional_operator import conditional_columns, conditional_operator


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
    some = conditional_operator(KERNELS[name], z, 0.1, slice(2, 5), valid, dtype=torch.float64)
    torch.testing.assert_close(some, weights[2:5])
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


@pytest.mark.parametrize("kernel", [Linear(), RBF(1.0), Delta()])
def test_all_rows_are_those_of_the_batch_without_its_queue(kernel):
    z = values(13)
    found = conditional_operator(kernel, z[:8], 0.1, queue=z[8:])
    expected = conditional_operator(kernel, z, 0.1)[:8]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_features_wider_than_the_samples_are_not_formed():
    class Wide(Polynomial):
        def features(self, a):
            raise AssertionError("formed")

    z = values(20, 30)
    weights = conditional_operator(Wide(degree=3), z, 0.1)
    torch.testing.assert_close(weights, slow_loops.operator(Polynomial(degree=3)(z, z), 0.1))


def test_landmarks_approach_the_exact_operator_where_the_kernel_is_wide():
    z, some, kernel = values(1024, 4), slice(100, 108), RBF(20.0)
    exact = solved_exactly(kernel, z, 0.1, some)
    near = conditional_operator(kernel, z, 0.1, some, landmarks=256)
    assert (near - exact).abs().max() < 1e-3 * exact.max()
    assert (near - exact).abs().sum() < 5e-4 * exact.abs().sum()


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


@pytest.mark.parametrize(
    ("kernel", "z"),
    [(RBF(), values(30)), (Polynomial(degree=2), values(30)), (Cosine(), torch.arange(30) % 4)],
    ids=["rbf of vectors", "polynomial of vectors", "cosine of class ids"],
)
def test_compiles_whole(kernel, z):
    def weights(z):
        return conditional_operator(kernel, z, 0.1)

    compiled = torch.compile(weights, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(z), weights(z))


@pytest.mark.parametrize("kernel", [Linear(), Cosine()])
def test_without_ridge_fewer_features_than_samples_give_nan(kernel):
    assert conditional_operator(kernel, values(4, 2), 0.0).isnan().all()
    assert conditional_operator(kernel, values(4, 2), 1e-3).isfinite().all()


@pytest.mark.parametrize("absent", [1, 2])
def test_without_ridge_classes_must_have_one_sample_each_among_those_that_are_there(absent):
    valid = torch.tensor([True] * 3 + [False] * absent)
    single, double = torch.tensor([4, 0, 1, 4, 1])[: len(valid)], torch.zeros(len(valid)).long()
    weights = conditional_operator(Delta(), single, 0.0, valid=valid)
    torch.testing.assert_close(weights, torch.diag(valid.float()))
    for ids in (double, torch.tensor([4, 0, 4, 1, 2])[: len(valid)]):
        assert conditional_operator(Delta(), ids, 0.0, valid=valid).isnan().any()


def test_without_ridge_there_are_no_landmarks():
    assert conditional_operator(RBF(), values(9), 0.0, landmarks=3).isnan().all()


def test_as_many_landmarks_as_samples_or_features_are_all():
    z = values(50, 3)
    for kernel, landmarks in ((Linear(), 3), (RBF(), 50)):
        exact = conditional_operator(kernel, z, 0.1)
        assert torch.equal(conditional_operator(kernel, z, 0.1, landmarks=landmarks), exact)


def low_precision(a, b):
    return a.float() @ b.float().T


FORMS = {
    "classes": (Delta(), torch.arange(40) % 3, {}),
    "features": (Cosine(), values(40, 3).float(), {"queue": values(20, 3, 1).float()}),
    "all": (low_precision, values(40, 3).float(), {}),
    "landmarks": (RBF(9.0), values(40, 3).float(), {"landmarks": 20}),
}


@pytest.mark.parametrize("form", FORMS)
def test_autocast_changes_nothing(form):
    kernel, z, options = FORMS[form]
    expected = conditional_operator(kernel, z, 0.1, **options)
    with torch.autocast("cpu", torch.bfloat16):
        found = conditional_operator(kernel, z, 0.1, **options)
        columns = conditional_columns(kernel, z, 0.1, **options)
    assert torch.equal(found, expected)
    assert torch.equal(columns(slice(None)), expected)
    assert not expected.requires_grad


@pytest.mark.parametrize("form", FORMS)
def test_the_type_is_that_of_float64_values_or_the_one_asked_for(form):
    kernel, z, options = FORMS[form]
    assert conditional_operator(kernel, z, 0.1, **options).dtype == torch.float32
    asked = conditional_operator(kernel, z, 0.1, dtype=torch.float64, **options)
    assert asked.dtype == torch.float64
    if z.is_floating_point():
        options = {
            **options,
            **({"queue": options["queue"].double()} if "queue" in options else {}),
        }
        assert conditional_operator(kernel, z.double(), 0.1, **options).dtype == torch.float64
        narrow = conditional_operator(kernel, z.double(), 0.1, dtype=torch.float32, **options)
        assert narrow.dtype == torch.float32


GRAM = values(20, 9, 2) @ values(20, 9, 2).T


@pytest.mark.parametrize(
    ("kernel", "z"),
    [
        (RBF(0.5), values(20)),
        (Cosine(), values(20)),
        (Polynomial(degree=3), values(20, 30)),
        (Delta(), torch.arange(20) % 3),
        (RBF(0.5), torch.arange(20) % 3),
        (Precomputed(GRAM), torch.arange(20)),
    ],
)
def test_a_queue_stands_after_the_batch_whatever_its_empty_places_hold(kernel, z):
    valid = torch.arange(20) % 5 != 4
    valid[:8] = True
    there = conditional_operator(kernel, z[valid], 0.1, slice(1, 5), dtype=torch.float64)
    garbage = z.clone()
    garbage[~valid] = torch.nan if z.is_floating_point() else 19
    options = {"rows": slice(1, 5), "valid": valid, "dtype": torch.float64}
    columns = conditional_columns(kernel, garbage[:8], 0.1, queue=garbage[8:], **options)
    for some in (slice(None), slice(0, 8), slice(8, 20), slice(5, 15)):
        mine = valid[some]
        expected = there[:, (valid.cumsum(0) - 1)[some][mine]]
        torch.testing.assert_close(columns(some)[:, mine], expected, rtol=1e-9, atol=1e-10)
        assert (columns(some)[:, ~mine] == 0).all()


def test_empty_places_reach_no_median():
    z, valid = values(20), torch.arange(20) < 15
    filled = torch.cat([z[:15], z[[7, 0, 1, 2, 3]]])  # the batch of 8, taken in turn
    expected = slow_loops.operator(RBF("median")(filled, filled)[:15, :15], 0.1)
    z[15:] = torch.nan
    columns = conditional_columns(RBF("median"), z[:8], 0.1, queue=z[8:], valid=valid)
    torch.testing.assert_close(columns(slice(0, 15)), expected[:8])


def test_all_rows_and_columns_by_landmarks_are_those_in_parts():
    z, kernel = values(300, 32), Laplacian("median")
    whole = conditional_operator(kernel, z, 0.01, landmarks=32)
    exact = conditional_operator(kernel, z, 0.01)
    torch.testing.assert_close(whole.diagonal(), exact.diagonal(), rtol=0.05, atol=0)
    columns = conditional_columns(kernel, z, 0.01, slice(100, 120), landmarks=32)
    for some in (slice(None), slice(0, 90), slice(90, 110), slice(105, 112), slice(110, 300)):
        torch.testing.assert_close(columns(some), whole[100:120, some])


def test_the_rest_beside_landmarks_is_the_samples_own():
    """The formula, with dense matrices of the samples and every third of them as landmarks."""
    z, kernel, ridge = values(12), RBF(2.0), 0.3
    marks = z[[0, 3, 6, 9]]
    low = kernel(z, marks) @ torch.linalg.solve(kernel(marks, marks), kernel(marks, z))
    near = low + torch.diag((kernel(z, z) - low).diagonal())
    expected = torch.linalg.solve(near + ridge * torch.eye(12).double(), near)
    found = conditional_operator(kernel, z, ridge, landmarks=4)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_equal_landmarks_of_a_large_kernel_are_regular():
    def large(a, b):
        return 1e6 * RBF(9.0)(a, b)

    z = values(10).repeat_interleave(4, 0)
    found = conditional_operator(large, z, 1.0, landmarks=20)
    torch.testing.assert_close(found, conditional_operator(large, z, 1.0), rtol=0, atol=1e-4)


def test_a_column_of_a_table_is_taken_without_a_warning():
    table = torch.randint(3, (40, 2), generator=torch.manual_seed(1))
    found = conditional_operator(Delta(), table[:, 0], 0.1)
    torch.testing.assert_close(found, conditional_operator(Delta(), table[:, 0].clone(), 0.1))

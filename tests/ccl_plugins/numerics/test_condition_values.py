"""Products and distances of condition values."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.numerics.condition_values import (
    as_vectors,
    equal,
    fill_missing,
    inner,
    missing_samples,
    replace_invalid,
    squared_distance,
    squared_norm,
)


@pytest.mark.parametrize("c", [1, 3, 2048])
def test_squared_distance_far_off_centre_is_that_of_differences(c):
    torch.manual_seed(0)
    a, b = (torch.randn(9, c, dtype=torch.float64) + 1e4 for _ in range(2))
    direct = (a[:, None] - b).square().sum(2)
    torch.testing.assert_close(squared_distance(a, b), direct, rtol=1e-9, atol=0)
    assert (squared_distance(a.float(), b.float()) >= 0).all()
    assert (squared_distance(a, a).diagonal() == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("c", [1, 3, 128, 2048])
def test_squared_distance_of_equal_values_is_exactly_0(c, dtype):
    torch.manual_seed(0)
    z = torch.randn(50, c, dtype=dtype) * torch.logspace(-2, 2, c, dtype=dtype) + 10
    z = z[torch.randint(50, (200,))]
    square, same = squared_distance(z, z.clone()), equal(z, z)
    assert (square[same] == 0).all()
    assert (square[~same] > 0).all()


def test_equality_is_of_all_entries():
    ids = torch.tensor([3, 1, 3])
    expected = torch.tensor([[True, False, True], [False, True, False], [True, False, True]])
    torch.testing.assert_close(equal(ids, ids), expected)
    z = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0]])
    torch.testing.assert_close(equal(z, z), expected)


def test_integers_in_two_dimensions_are_refused():
    with pytest.raises(TypeError, match=r"must be \(b,\), class ids, not \(2, 2\)"):
        as_vectors(torch.ones(2, 2, dtype=torch.long))


def test_values_are_rows_of_vectors_or_ids():
    z, ids = torch.rand(4), torch.tensor([2, 0, 2, 1], dtype=torch.uint8)
    torch.testing.assert_close(as_vectors(z), z[:, None], rtol=0, atol=0)
    assert as_vectors(z[:, None]).shape == (4, 1)
    assert as_vectors(ids) is ids
    for flags in (torch.eye(3).bool(), torch.eye(3, dtype=torch.uint8)):
        torch.testing.assert_close(as_vectors(flags), torch.eye(3), rtol=0, atol=0)


@pytest.mark.parametrize("measure", [inner, squared_distance])
def test_class_ids_are_one_hot_vectors(measure):
    a, b = torch.tensor([0, 2, 1]), torch.tensor([2, 2, 0, 1])
    vectors = torch.eye(3)
    torch.testing.assert_close(measure(a, b), measure(vectors[a], vectors[b]), rtol=0, atol=1e-6)
    torch.testing.assert_close(squared_norm(a), squared_norm(vectors[a]))


def test_products_and_norms_are_those_of_vectors():
    a, b = torch.randn(3, 2), torch.randn(5, 2)
    torch.testing.assert_close(inner(a, b), (a[:, None] * b).sum(2))
    torch.testing.assert_close(squared_norm(a), a.norm(dim=1).square())


def test_columns_may_be_far_off_each_in_its_own_place():
    z = torch.randn(9, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    far = z + torch.tensor([1e4, -3e4, 0])
    torch.testing.assert_close(squared_distance(far, far[1:]), squared_distance(z, z[1:]))


def test_distances_above_rounding_are_kept_in_many_columns():
    z = torch.ones(2, 2048).index_fill(0, torch.tensor(1), -1)
    near = torch.cat([z, z[:1] + 0.025])
    assert squared_distance(near, near)[0, 2] > 1


def test_a_value_is_at_distance_0_of_itself_even_if_its_square_overflows():
    z = torch.tensor([[1e25], [-1e25]])
    assert (squared_distance(z, z).diagonal() == 0).all()


def test_samples_without_a_value_are_found_in_every_shape():
    nan = torch.nan
    assert missing_samples(torch.tensor([1.0, nan])).tolist() == [False, True]
    assert missing_samples(torch.tensor([-1, -2, 1, 0])).tolist() == [True, False, False, False]
    columns = torch.tensor([[1.0, 2.0], [3.0, nan], [nan, nan]])
    assert missing_samples(columns).tolist() == [False, True, True]
    assert missing_samples(torch.tensor([[0, -1, 2], [1, 1, 1]])).tolist() == [True, False]
    views = torch.stack([torch.zeros(3, 2), columns])
    assert missing_samples(views).tolist() == [False, True, True]


def test_missing_samples_take_the_values_of_the_others_in_turn():
    missing = torch.tensor([True, False, True, True, False, True])
    values = torch.arange(6.0)
    taken = [1, 1, 1, 4, 4, 4]  # the samples that are there are 1 and 4
    torch.testing.assert_close(fill_missing(values, missing), torch.tensor(taken).float())
    columns = torch.stack([values, -values], 1)
    torch.testing.assert_close(fill_missing(columns, missing), columns[taken])
    views = torch.stack([columns, columns + 10])
    torch.testing.assert_close(fill_missing(views, missing), views[:, taken])
    one = torch.tensor([True, True, False])
    assert fill_missing(torch.tensor([7, 8, 9]), one).tolist() == [9, 9, 9]
    assert fill_missing(torch.tensor([7, 8, 9]), torch.ones(3).bool()).tolist() == [0, 0, 0]


def test_empty_places_take_the_first_values_in_turn():
    values = torch.tensor([1.0, 2.0, 3.0, torch.nan, 5.0, torch.nan])
    valid = values.isfinite()
    assert replace_invalid(values, valid, 3).tolist() == [1.0, 2.0, 3.0, 1.0, 5.0, 3.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_in_half_precision_are_compared(dtype):
    a = torch.tensor([[1.0, 2.0], [1.0, 2.5]], dtype=dtype)
    assert equal(a, a).tolist() == [[True, False], [False, True]]

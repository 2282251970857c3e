"""Products and distances of condition values."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.numerics.condition_values import as_vectors, equal, squared_distance


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

"""Numbers that are fixed or change over training, precision, and tensors of all processes."""

from __future__ import annotations

import math

import pytest
import torch
from lightly.utils import dist

from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.numbers import is_zero, log, plus
from ccl_plugins.numerics.precision import at_least_float32


def test_only_a_fixed_number_is_zero():
    assert is_zero(0.0)
    assert not is_zero(1.0)
    assert not is_zero(torch.tensor(0.0))


def test_a_number_that_changes_keeps_its_gradient():
    x, y, number = torch.rand(3), torch.rand(3), torch.tensor(0.5, requires_grad=True)
    assert log(0.5) == math.log(0.5)
    (slope,) = torch.autograd.grad(log(number), number)
    assert float(slope) == 2.0
    torch.testing.assert_close(plus(x, 0.5, y), x + y / 2)
    found = plus(x, number, y)
    torch.testing.assert_close(found, x + y / 2)
    (slope,) = torch.autograd.grad(found.sum(), number)
    torch.testing.assert_close(slope, y.sum())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        *((dtype, dtype) for dtype in (torch.float32, torch.float64, torch.uint8, torch.int64)),
    ],
)
def test_narrower_floats_alone_become_float32(given, expected):
    x = torch.ones(2, dtype=given)
    assert at_least_float32(x).dtype == expected


def test_tensors_are_gathered_in_the_order_of_ranks(monkeypatch):
    x = torch.rand(2, 3)
    monkeypatch.setattr(dist, "gather", lambda x: (x, -x))
    assert gather(x) is x
    monkeypatch.setattr(dist, "world_size", lambda: 2)
    assert torch.equal(gather(x), torch.cat([x, -x]))
    assert torch.equal(gather(x, 1), torch.cat([x, -x], 1))

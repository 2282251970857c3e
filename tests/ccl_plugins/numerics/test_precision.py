"""Directions of vectors, whatever their length."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ccl_plugins.numerics.precision import unit
from ccl_plugins.objectives import InfoNCE, SupCon


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_usual_lengths_it_is_torch_s_to_the_last_digit_with_its_gradient(dtype):
    x = torch.randn(2, 60, 16, dtype=dtype, generator=torch.Generator().manual_seed(0))
    x = (x * torch.logspace(-6, 6, 60, dtype=dtype)[:, None]).requires_grad_()
    for found, expected in (
        (unit(x), functional.normalize(x, dim=-1)),
        *zip(
            torch.autograd.grad(unit(x).square().cumsum(-1).sum(), x),
            torch.autograd.grad(functional.normalize(x, dim=-1).square().cumsum(-1).sum(), x),
            strict=True,
        ),
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not unit(torch.zeros(2, 4)).any()


def test_its_gradient_can_be_differentiated():
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.autograd.gradcheck(unit, x.requires_grad_())
    torch.autograd.gradgradcheck(unit, x)


@pytest.mark.parametrize("length", [1e20, 1e37, 1e-30, 1e-37])
def test_a_loss_on_the_sphere_does_not_depend_on_the_length_of_embeddings(length):
    """Their squares are no float32 numbers; the loss was log(b), without a word."""
    x, y = torch.randn(2, 32, 16, generator=torch.Generator().manual_seed(0)).unbind()
    label = torch.arange(32) % 4
    for objective, more in ((InfoNCE(), {}), (SupCon(), {"condition": {"condition": label}})):
        expected = objective(x, y, **more)
        torch.testing.assert_close(objective(length * x, length * y, **more), expected)

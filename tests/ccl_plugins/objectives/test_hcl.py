"""HCL against a slow loop, value and gradient."""

from __future__ import annotations

import pytest
import torch
from support import slow_hardness

from ccl_plugins.objectives import HCL, HUCL


@pytest.mark.parametrize("weight_gradient", [True, False])
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize(
    ("tau", "beta", "tau_plus"), [(0.5, 1.5, 0.2), (0.1, 0.0, 0.3), (0.2, 5.0, 0.8)]
)
def test_equals_the_slow_loop_in_value_and_gradient(tau, beta, tau_plus, within, weight_gradient):
    torch.manual_seed(3)
    x, y = (torch.randn(6, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    fast = HCL(
        tau, beta=beta, tau_plus=tau_plus, within_view=within, weight_gradient=weight_gradient
    )(x, y)
    slow = slow_hardness.two_views(
        x,
        y,
        o="negatives",
        within=within,
        tau=tau,
        beta=beta,
        tau_plus=tau_plus,
        fixed=not weight_gradient,
    )
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        torch.autograd.grad(fast, (x, y)), torch.autograd.grad(slow, (x, y)), rtol=1e-9, atol=1e-12
    )


def test_with_nothing_to_correct_it_is_hucl():
    torch.manual_seed(0)
    views = torch.randn(3, 5, 6, dtype=torch.float64)
    expected = HUCL(0.2, beta=2.0, o="negatives")(*views)
    torch.testing.assert_close(HCL(0.2, beta=2.0, tau_plus=0)(*views), expected)


def test_an_anchor_at_the_floor_is_pushed_by_no_negative():
    x = torch.eye(4, dtype=torch.float64)
    y = x.clone().requires_grad_()
    loss = HCL(0.1, tau_plus=0.5)(
        x, y
    )  # own scores of 1, others of 0: all anchors are at the floor
    own = torch.tensor(10.0, dtype=torch.float64)
    torch.testing.assert_close(loss, torch.log1p(6 * torch.exp(-10 - own)), rtol=1e-9, atol=0)
    loss.backward()
    assert y.grad.isfinite().all()

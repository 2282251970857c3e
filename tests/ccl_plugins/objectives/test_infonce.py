from __future__ import annotations

import pytest
import torch
from lightly.loss import NTXentLoss
from support import slow_loops

from ccl_plugins.objectives import InfoNCE


@pytest.mark.parametrize("tau", [0.07, 0.5])
def test_equals_the_slow_loop_in_value_and_gradient(tau):
    torch.manual_seed(0)
    x, y = (torch.randn(6, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    cases = [
        (InfoNCE(tau), (slow_loops.infonce(x, y, tau) + slow_loops.infonce(y, x, tau)) / 2),
        (InfoNCE(tau, symmetric=False), slow_loops.infonce(x, y, tau)),
        (InfoNCE(tau, within_view=True), slow_loops.nt_xent(x, y, tau)),
    ]
    for objective, slow in cases:
        fast = objective(x, y)
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=0)
        torch.testing.assert_close(
            torch.autograd.grad(fast, (x, y)),
            torch.autograd.grad(slow, (x, y)),
            rtol=1e-9,
            atol=1e-12,
        )


def test_equals_lightly_s_nt_xent():
    torch.manual_seed(0)
    x, y = torch.randn(16, 8), torch.randn(16, 8)
    torch.testing.assert_close(
        InfoNCE(0.2, within_view=True)(x, y), NTXentLoss(0.2)(x, y), rtol=2e-6, atol=0
    )


def test_four_views_are_the_mean_over_ordered_pairs():
    torch.manual_seed(0)
    views = torch.randn(4, 5, 6, dtype=torch.float64)
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    slow = sum(slow_loops.infonce(views[i], views[j], 0.3) for i, j in pairs) / len(pairs)
    torch.testing.assert_close(InfoNCE(0.3)(*views), slow, rtol=1e-9, atol=0)

"""UCL and H-UCL against a slow loop, value and gradient."""

from __future__ import annotations

import pytest
import torch
from support import slow_hardness

from ccl_plugins.objectives import HCL, HUCL, UCL, InfoNCE
from ccl_plugins.pairs import in_batch


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        (UCL(0.3), {}),
        (UCL(0.3, o="negatives"), {"o": "negatives"}),
        (UCL(0.3, o=2.5, within_view=False), {"o": 2.5, "within": False}),
        (HUCL(0.3, beta=1.7), {"beta": 1.7}),
        (HUCL(0.3, beta=1.7, weight_gradient=False), {"beta": 1.7, "fixed": True}),
        (HUCL(0.3, beta=0, threshold=1.5, o=1), {"threshold": 1.5, "o": 1}),
        (HUCL(0.3, beta=2, threshold=5, o="negatives"), {"beta": 2, "threshold": 5} | {"o": 10}),
    ],
    ids=["ucl", "negatives", "cross-view", "hucl", "fixed weights", "threshold", "both"],
)
def test_equals_the_slow_loop_in_value_and_gradient(objective, settings):
    torch.manual_seed(7)
    x, y = (torch.randn(6, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    fast = objective(x, y)
    slow = slow_hardness.two_views(x, y, tau=0.3, **settings)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        torch.autograd.grad(fast, (x, y)), torch.autograd.grad(slow, (x, y)), rtol=1e-9, atol=1e-12
    )


def test_with_the_number_of_negatives_it_is_nt_xent_for_any_number_of_views():
    torch.manual_seed(0)
    views = torch.randn(3, 5, 6, dtype=torch.float64)
    nt_xent = InfoNCE(0.2, within_view=True)(*views)
    torch.testing.assert_close(UCL(0.2, o="negatives")(*views), nt_xent, rtol=1e-12, atol=0)
    torch.testing.assert_close(HUCL(0.2, beta=0, o=8)(*views), nt_xent, rtol=1e-12, atol=0)


def test_a_negative_at_the_threshold_counts():
    x = torch.eye(4, dtype=torch.float64)  # all others are at a score of 0
    for threshold, weight in ((1.0, 1), (1.0001, 0)):
        values, weights = HUCL(0.3, beta=0, threshold=threshold).terms(
            in_batch(torch.stack([x, x]))
        )
        assert weights.eq(weight).all()
        assert values.isfinite().all()


def test_a_family_s_weights_carry_gradient_by_default():
    for objective in (UCL(), HUCL(), HCL()):
        assert objective.weight_gradient is True
    assert (UCL().beta, UCL().threshold) == (0.0, None)
    assert HCL().o == "negatives"

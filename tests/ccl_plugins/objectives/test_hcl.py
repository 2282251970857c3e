"""HCL against a slow loop, value and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from support import slow_hardness
from torch.nn.functional import normalize

from ccl_plugins.objectives import HCL, HUCL
from ccl_plugins.pairs import in_batch


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


@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("noise", [2.0, 3.0])
def test_at_a_low_temperature_float32_loses_no_more_than_its_products_do(noise, beta):
    """The debiased difference, given inner products in float32, against itself in float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1024, 128, generator=generator)
    y = x + noise * torch.randn(1024, 128, generator=generator)
    objective = HCL(0.01, beta=beta)
    narrow = in_batch(normalize(torch.stack([x, y]), dim=-1))
    found = objective.terms(narrow)[0]
    wide = in_batch(narrow.anchors.double())
    for views, products in narrow._products.items():
        wide._products[views] = products.double()
    object.__setattr__(wide, "own_sim", lambda i, j: narrow.own_sim(i, j).double())
    torch.testing.assert_close(found.double(), objective.terms(wide)[0], rtol=0, atol=3e-5)


@pytest.mark.parametrize("tau", [0.7, 1.0])
def test_the_floor_is_the_smallest_mean_that_similarities_can_have(tau):
    """A debiased mean above 0 and below ``e^(-1/τ)`` counts as that, and has no gradient."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    y = torch.tensor([[-0.5, 0.75**0.5], [-1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    pairs = in_batch(torch.stack([x, y]))
    values, _ = HCL(tau, beta=0.0, tau_plus=0.4, within_view=False).terms(pairs)
    own, floor = math.exp(-0.5 / tau), math.exp(-1 / tau)  # the first anchor's; its negative is -1
    assert 0 < (floor - 0.4 * own) / 0.6 < floor
    torch.testing.assert_close(values[0, 0].item(), math.log1p(floor / own), rtol=1e-12, atol=0)
    values[0, 0].backward()
    assert not y.grad[1].any()

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightly.loss import NTXentLoss
from support import slow_loops

import ccl_plugins as ccl
from ccl_plugins.objectives import HardNegInfoNCE, InfoNCE
from ccl_plugins.pairs import Queue, Samples, in_batch
from ccl_plugins.testing.objective_batches import RawBatch, queue_pairs


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


@pytest.mark.parametrize(("objective", "streams"), [(InfoNCE(), True), (HardNegInfoNCE(), False)])
def test_products_with_a_queue_are_held_only_where_weights_need_them(objective, streams):
    views = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0))
    pairs = queue_pairs(objective, RawBatch(views, {"condition": torch.arange(8) % 3}), 6, 0.0)
    objective.loss(pairs)
    assert ({6} <= {each.shape[-1] for each in pairs._products.values()}) != streams


NEVER_NEGATIVE = {
    "infonce": {},
    "nt_xent": {},
    "cmc": {},
    "hardneg_infonce": {},
    "fair_infonce": {},
    "weaklysup_infonce": {},
    "supcon": {},
    "cl_infonce": {},
    "soft_infonce": {"kernel": "delta"},
    "cacr_moco_v3": {},
    "fair_cclk": {"kernel": "delta"},
    "weaklysup_cclk": {"kernel": "delta"},
    "ucl": {},
    "debiased": {},
    "hcl": {},
}
"""Minus a log-probability, or ``log(1 + x)``."""


@pytest.mark.parametrize(
    "temperature", [0.01, {"learn": True, "start": 0.01}], ids=["fix", "learn"]
)
@pytest.mark.parametrize("queue", [False, True])
@pytest.mark.parametrize("name", NEVER_NEGATIVE)
def test_no_term_is_below_0_in_float32_at_a_low_temperature(name, queue, temperature):
    if name == "cacr_moco_v3" and not isinstance(temperature, float):
        return  # it cannot be learned
    objective = ccl.create("objective", name, temperature=temperature, **NEVER_NEGATIVE[name])
    views = torch.randn(1, 300, 64, generator=torch.Generator().manual_seed(0))
    near = views + 0.05 * torch.randn(2, 300, 64, generator=torch.Generator().manual_seed(1))
    near = torch.nn.functional.normalize(near, dim=-1)
    condition = {on: torch.arange(300) // 2 for on in objective.conditions}
    pairs = in_batch(near, Samples(condition, torch.arange(300)))
    if queue:
        keys, index = pairs.anchors[1].roll(1, 0), torch.arange(300).roll(1)
        rows = {on: z.roll(1) for on, z in condition.items()}
        pairs = replace(pairs, queue=Queue(keys.detach(), index > 10, rows, index))
    values, weights = objective.terms(pairs)
    assert values.min() >= 0
    assert weights.any()

"""InfoNCE and its relatives: what their equations do not say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightly.loss import NTXentLoss
from support.slow_infonce import random_batch
from torch.nn.functional import normalize

import ccl_plugins as ccl
from ccl_plugins.objectives import CMC, ClInfoNCE, FairInfoNCE, HardNegInfoNCE, InfoNCE
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch
from ccl_plugins.testing.objective_batches import RawBatch, queue_pairs


def test_equals_lightly_s_nt_xent():
    torch.manual_seed(0)
    x, y = torch.randn(16, 8), torch.randn(16, 8)
    torch.testing.assert_close(
        InfoNCE(0.2, within_view=True)(x, y), NTXentLoss(0.2)(x, y), rtol=2e-6, atol=0
    )


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
    near = normalize(near, dim=-1)
    condition = {on: torch.arange(300) // 2 for on in objective.conditions}
    pairs = in_batch(near, Samples(condition, torch.arange(300)))
    if queue:
        keys, index = pairs.anchors[1].roll(1, 0), torch.arange(300).roll(1)
        rows = {on: z.roll(1) for on, z in condition.items()}
        pairs = replace(pairs, queue=Queue(keys.detach(), index > 10, rows, index))
    values, weights = objective.terms(pairs)
    assert values.min() >= 0
    assert weights.any()


@pytest.mark.parametrize(
    ("anchor_views", "key_views", "core"),
    [
        ((2, 5, 7), (2, 5, 7), [(0, 1), (0, 2), (1, 0), (2, 0)]),
        ((3, 4), (1, 3), [(0, 0), (1, 0)]),
        ((1, 2), (2, 3), [(0, 0), (0, 1)]),
    ],
)
def test_the_core_is_the_first_view_of_anchors_or_keys(anchor_views, key_views, core):
    pairs = Pairs(
        torch.ones(len(anchor_views), 2, 3),
        torch.ones(len(key_views), 2, 3),
        anchor_views,
        key_views,
    )
    assert CMC(graph="core").compared(pairs) == core


def test_an_anchor_alone_in_its_class_does_not_count():
    (x, y), ids = random_batch()
    pairs = in_batch(torch.stack([x, y]), Samples({"condition": ids}))
    _, weights = FairInfoNCE().terms(pairs)
    assert weights.tolist() == [[1, 1, 1, 0, 1, 1, 1]] * 2


def test_of_one_draw_the_value_is_its_score_above_the_own_key_s():
    views = normalize(torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    draws = torch.tensor([[1], [2], [3], [0]])
    pairs = in_batch(views, Samples({"condition": torch.tensor([0, 1, 0, 1])}))
    values, weights = ClInfoNCE(0.2).terms(replace(pairs, draws=draws))
    products = views[0] @ views[1].T / 0.2
    drawn = products.gather(1, draws)[:, 0]
    torch.testing.assert_close(values[0], drawn - products.diagonal())
    assert torch.equal(weights, torch.ones_like(values))

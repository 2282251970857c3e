"""Positives and negatives that a user brings, likely false negatives, and draws."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch, share

from ccl_plugins.kernels import RBF, Cosine, Linear
from ccl_plugins.objectives import (
    CACR,
    SCL,
    UCL,
    AlignUniform,
    ClInfoNCE,
    FairCCLK,
    FairInfoNCE,
    HardNegInfoNCE,
    InfoNCE,
    NTXent,
    SoftInfoNCE,
    SupCon,
    WeaklySupCCLK,
    WeaklySupInfoNCE,
)
from ccl_plugins.pairs import Pairs, Samples, in_batch

OBJECTIVES = {
    "infonce": InfoNCE,
    "nt_xent": NTXent,
    "weaklysup_infonce": WeaklySupInfoNCE,
    "fair_infonce": FairInfoNCE,
    "hardneg_infonce": HardNegInfoNCE,
    "cl_infonce": ClInfoNCE,
    "supcon": SupCon,
    "inside": lambda tau, **more: SupCon(tau, summation="inside", **more),
    "sincere": lambda tau, **more: SupCon(tau, denominator="negatives", **more),
    "soft_infonce": lambda tau, **more: SoftInfoNCE(RBF(), tau, **more),
    "fair_cclk": lambda tau, **more: FairCCLK(RBF(), tau, **more),
    "weaklysup_cclk": lambda tau, **more: WeaklySupCCLK(RBF(), tau, **more),
    "released fair_cclk": lambda tau, **more: FairCCLK(RBF(), tau, form="released", **more),
    "released weaklysup_cclk": lambda tau, **more: WeaklySupCCLK(
        RBF(), tau, form="released", **more
    ),
    "ucl": UCL,
    "scl": SCL,
}
ONE_POSITIVE = ("infonce", "nt_xent", "hardneg_infonce", "fair_infonce", "ucl", "fair_cclk")
EXCLUDING = (*ONE_POSITIVE, "released fair_cclk", "soft_infonce")


def unit(*views):
    return torch.stack([torch.nn.functional.normalize(view, dim=1) for view in views])


def masks():
    """Sample 1 is a positive of 0 and 4; 3 is left out for all; the rest are negatives."""
    positives = torch.zeros(7, 7).bool()
    positives[[0, 4], 1] = True
    negatives = ~positives
    negatives[:, 3] = False
    return positives, negatives


@pytest.mark.parametrize("name", OBJECTIVES)
def test_samples_that_are_neither_are_left_out(name):
    (x, y, other), ids = random_batch(views=3)
    objective, (positives, negatives) = OBJECTIVES[name](0.3), masks()
    condition = {"condition": ids}
    before = Pairs.from_masks(unit(x, y), positives, negatives, Samples(condition))
    changed = (torch.cat([view[:3], other[:1], view[4:]]) for view in (x, y))
    after = Pairs.from_masks(unit(*changed), positives, negatives, Samples(condition))
    rest = [0, 1, 2, 4, 5, 6]
    (old, weights), (new, _) = objective.terms(before), objective.terms(after)
    torch.testing.assert_close(old[:, rest], new[:, rest], rtol=0, atol=0)
    assert (weights[:, rest] > 0).all()


@pytest.mark.parametrize("build", [InfoNCE, WeaklySupInfoNCE])
def test_brought_masks_equal_the_slow_loop(build):
    (x, y), _ = random_batch()
    positives, negatives = masks()
    several = build is WeaklySupInfoNCE
    values = []
    for a, k in ((x, y), (y, x)):
        for i in range(7):
            mine = [k[i]] + [k[j] for j in range(7) if several and positives[i, j] and j != i]
            others = [k[j] for j in range(7) if negatives[i, j] and j != i]
            values.append(share(a[i], mine, others, 0.3))
    pairs = Pairs.from_masks(unit(x, y), positives, negatives)
    assert_same(build(0.3).loss(pairs), slow_infonce.mean(values), (x, y))


@pytest.mark.parametrize("build", [InfoNCE, SupCon, CACR, AlignUniform])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_pairs_are_compared_in_float32_whatever_they_come_in_and_under_autocast(build, dtype):
    (x, y), ids = random_batch()
    alike, views = ids[:, None] == ids, unit(x, y).to(dtype)
    expected = build().loss(Pairs.from_masks(views.float(), alike))
    with torch.autocast("cpu", torch.bfloat16):
        found = build().loss(Pairs.from_masks(views, alike))
    torch.testing.assert_close(found, expected)


def test_conditions_in_half_precision_are_compared_in_float32():
    (x, y), _ = random_batch()
    z = torch.randn(7, 64, generator=torch.Generator().manual_seed(8)).bfloat16()
    objective = SoftInfoNCE(Cosine(), target_temperature=0.04)
    expected = objective(x, y, condition=z.float())
    torch.testing.assert_close(objective(x, y, condition=z), expected, rtol=0, atol=0)


def test_masks_of_classes_make_supcon():
    (x, y), ids = random_batch()
    pairs = Pairs.from_masks(unit(x, y), ids[:, None] == ids, ids[:, None] != ids)
    torch.testing.assert_close(SupCon(0.3).loss(pairs), SupCon(0.3)(x, y, condition=ids))


@pytest.mark.parametrize(
    ("positives", "negatives", "words"),
    [
        (torch.eye(7), None, "positives must be bool .* not torch.float32"),
        (torch.eye(6).bool(), None, r"\(n, m\) = \(7, 7\), not .* \(6, 6\)"),
        (torch.ones(7, 7).bool(), torch.ones(7, 7).bool(), "sample 1 is both .* of sample 0"),
    ],
)
def test_bad_masks_are_named(positives, negatives, words):
    (x, y), _ = random_batch()
    with pytest.raises(ValueError, match=words):
        Pairs.from_masks(unit(x, y), positives, negatives)


@pytest.mark.parametrize("name", EXCLUDING)
def test_likely_false_negatives_are_no_negatives(name):
    """Sample 5 is of the class of samples 0 and 2: they do not see what becomes of it."""
    (x, y, other), ids = random_batch(views=3)
    objective = OBJECTIVES[name](0.3, exclude=(Linear(), 1.0, "label"))
    assert "label" in objective.conditions
    condition = {"condition": ids * 0, "label": ids}
    views = (torch.cat([view[:5], other[:1], view[6:]]) for view in (x, y))
    old, weights = objective.terms(objective._prepared(in_batch(unit(x, y), Samples(condition))))
    new, _ = objective.terms(objective._prepared(in_batch(unit(*views), Samples(condition))))
    torch.testing.assert_close(old[:, [0, 2]], new[:, [0, 2]], rtol=0, atol=0)
    assert (old[:, 1] != new[:, 1]).all()
    assert (weights > 0).all()


def test_excluding_equals_the_slow_loop_and_leaves_positives_alone():
    (x, y), ids = random_batch()
    z = torch.randn(7, 2, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    alike = torch.tensor([[torch.dot(a, b) / a.norm() / b.norm() >= 0.5 for b in z] for a in z])
    values = []
    for a, k in ((x, y), (y, x)):
        for i in range(7):
            mine = [k[j] for j in range(7) if ids[j] == ids[i]]
            others = [k[j] for j in range(7) if ids[j] != ids[i] and not alike[i, j]]
            values.append(share(a[i], mine, others, 0.3))
    objective = WeaklySupInfoNCE(0.3, on="label", exclude=(Cosine(), 0.5))
    found = objective(x, y, condition={"label": ids, "condition": z})
    assert_same(found, slow_infonce.mean(values), (x, y))


def test_an_anchor_without_any_negative_left_does_not_count():
    (x, y), ids = random_batch()
    pairs = in_batch(unit(x, y), Samples({"condition": ids * 0}))
    objective = InfoNCE(exclude=(Linear(), 1.0))
    _, weights = objective.terms(objective._prepared(pairs))
    assert weights.tolist() == [[0] * 7] * 2
    assert objective.loss(pairs) == 0


def test_an_anchor_whose_draws_are_all_excluded_does_not_count():
    (x, y), ids = random_batch()
    draws = torch.tensor([[0, 2]] * 7)
    pairs = replace(in_batch(unit(x, y), Samples({"condition": ids})), draws=draws)
    objective = ClInfoNCE(0.3, exclude=(Linear(), 1.0))
    values, weights = objective.terms(objective._prepared(pairs))
    alone = (ids[:, None] == ids[draws]).all(1)
    assert alone.any()
    assert (weights == 0).tolist() == [alone.tolist()] * 2
    assert values[weights == 0].eq(0).all()
    assert values[weights > 0].isfinite().all()


@pytest.mark.parametrize("exclude", [(Linear(),), Linear(), (0.5, Linear()), (Linear(), "0.5")])
def test_an_exclude_of_another_form_is_named(exclude):
    with pytest.raises(TypeError, match=r"exclude must be .* not "):
        InfoNCE(exclude=exclude)


@pytest.mark.parametrize("name", ["supcon", "soft_infonce", "fair_cclk", "weaklysup_cclk"])
def test_draws_are_refused_where_all_samples_are_weighed(name):
    (x, y), ids = random_batch()
    pairs = replace(
        in_batch(unit(x, y), Samples({"condition": ids})), draws=torch.zeros(7, 2).long()
    )
    with pytest.raises(ValueError, match="cannot take explicit draws"):
        OBJECTIVES[name](0.3).loss(pairs)


def test_draws_take_the_place_of_all_other_negatives_repeats_included():
    (x, y), _ = random_batch()
    draws = torch.tensor([[1, 1, 4]] * 7)
    pairs = Pairs(anchors=unit(x), keys=unit(y), anchor_views=(0,), key_views=(1,), draws=draws)
    values = [share(x[i], [y[i]], [y[1], y[1], y[4]], 0.3) for i in range(7)]
    assert_same(InfoNCE(0.3).loss(pairs), slow_infonce.mean(values), (x, y))

"""What must hold for the whole family of UCL, H-UCL, SCL, H-SCL and HCL."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from support import slow_hardness
from support.slow_infonce import assert_same
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.kernels import Cosine
from ccl_plugins.objectives import HCL, HSCL, HUCL, SCL, UCL, Debiased
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch

FAMILY = {
    "ucl": partial(UCL),
    "hucl": partial(HUCL),
    "hucl, fixed weights": partial(HUCL, weight_gradient=False),
    "hucl, threshold": partial(HUCL, threshold=1.0, o="negatives"),
    "scl": partial(SCL),
    "scl, all": partial(SCL, positives="all", o="negatives"),
    "hscl": partial(HSCL),
    "hscl, all": partial(HSCL, positives="all"),
    "hscl, all by anchors": partial(HSCL, positives="all", average="anchors", threshold=0.5),
    "hcl": partial(HCL),
    "debiased": partial(Debiased),
}
SETTINGS = {
    "ucl": {},
    "hucl": {"beta": 1.0},
    "hucl, fixed weights": {"beta": 1.0, "fixed": True},
    "hucl, threshold": {"beta": 1.0, "threshold": 1.0, "o": "negatives"},
    "scl": {},
    "scl, all": {"all_positives": True, "o": "negatives"},
    "hscl": {"beta": 1.0},
    "hscl, all": {"beta": 1.0, "all_positives": True},
    "hscl, all by anchors": {"beta": 1.0, "threshold": 0.5, "all_positives": True}
    | {"by_anchor": True},
    "hcl": {"beta": 1.0, "tau_plus": 0.1, "o": "negatives"},
    "debiased": {"tau_plus": 0.1, "o": "negatives"},
}
LABELS = torch.tensor([0, 1, 0, 2, 1, 0])
every = pytest.mark.parametrize("name", FAMILY)


def supervised(name):
    return "scl" in name


def condition(name, labels=LABELS):
    return {"condition": labels} if supervised(name) else {}


def unit(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(x, dim=-1)


@every
def test_a_queue_gives_negatives_and_positives_but_not_of_the_own_image(name):
    views, queue = unit(2, 6, 5), unit(7, 5, seed=1)
    queue_labels = torch.tensor([0, 1, 2, 2, 0, 1, 3])
    pairs = replace(
        in_batch(views, Samples(condition(name), index=torch.arange(6))),
        queue=Queue(
            queue,
            torch.tensor([True] * 5 + [False] * 2),
            condition(name, queue_labels),
            index=torch.tensor([9, 2, 9, 0, 9, 9, 9]),
        ),
    )
    kept = zip(queue, queue_labels.tolist(), [9, 2, 9, 0, 9], strict=False)
    slow = slow_hardness.two_views(
        *views,
        labels=LABELS.tolist() if supervised(name) else None,
        tau=0.5,
        queue=list(kept),
        **SETTINGS[name],
    )
    torch.testing.assert_close(FAMILY[name]().loss(pairs), slow, rtol=1e-9, atol=0)


@every
def test_momentum_keys_with_an_empty_queue_leave_every_anchor_out(name):
    views = unit(2, 6, 5)
    projections = views[:1].clone().requires_grad_()
    pairs = Pairs(
        samples=Samples(condition=condition(name)),
        queue=Queue(
            unit(4, 5, seed=1), torch.zeros(4, dtype=torch.bool), condition(name, torch.arange(4))
        ),
        anchors=projections,
        keys=views[1:],
        anchor_views=(0,),
        key_views=(1,),
        batch_candidates=torch.tensor(False),
    )
    objective = FAMILY[name]()
    loss = objective.loss(pairs)
    (gradient,) = torch.autograd.grad(loss, projections)
    assert objective.terms(pairs)[1].eq(0).all()
    assert loss == 0
    assert gradient.eq(0).all()


# With o = "negatives", samples left out by a mask do not count, those of the own class do.
@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if "o" not in s])
def test_masks_of_the_user_take_the_place_of_classes(name):
    views, alike = unit(2, 6, 5), LABELS[:, None] == LABELS
    fast = FAMILY[name]().loss(Pairs.from_masks(views, alike, ~alike))
    slow = slow_hardness.two_views(*views, labels=LABELS.tolist(), tau=0.5, **SETTINGS[name])
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=0)


@every
def test_excluded_samples_are_no_negatives(name):
    views, z = unit(2, 6, 5), unit(6, 3, seed=2)
    objective = FAMILY[name](exclude=(Cosine(), -2.0, "likeness"))  # everything is excluded
    loss = objective.loss(in_batch(views, Samples({**condition(name), "likeness": z})))
    assert "likeness" in objective.conditions
    assert loss == 0


@pytest.mark.parametrize("name", ["hucl", "hscl", "hcl"])
def test_scores_that_overflow_an_exponential_are_exact_in_float32(name):
    torch.manual_seed(0)
    near = torch.nn.functional.normalize(torch.randn(1, 8) + 0.4 * torch.randn(12, 8), dim=-1)
    x, y = near[:6], near[6:]
    objective = FAMILY[name](temperature=0.05, beta=5.0)
    exact = objective(x.double(), y.double(), **condition(name))
    torch.testing.assert_close(
        objective(x, y, **condition(name)).double(), exact, rtol=2e-5, atol=0
    )


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        (HUCL(0.3, beta=1.7, weight_gradient=False), {}),
        (HSCL(0.3, beta=1.7, weight_gradient=False), {"labels": LABELS.tolist()}),
        (
            HCL(0.3, beta=1.7, tau_plus=0.2, weight_gradient=False),
            {"tau_plus": 0.2, "o": "negatives"},
        ),
    ],
    ids=["hucl", "hscl", "hcl"],
)
def test_weights_may_carry_no_gradient(objective, settings):
    x, y = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    views = x.requires_grad_(), y.requires_grad_()
    fast = objective(*views, condition=LABELS if "labels" in settings else None)
    slow = slow_hardness.two_views(*views, tau=0.3, beta=1.7, fixed=True, **settings)
    assert_same(fast, slow, views)


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


def test_an_anchor_without_other_classes_is_left_out():
    torch.manual_seed(0)
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    x.requires_grad_()
    for objective in (SCL(), HSCL(beta=5), HSCL(positives="all"), HSCL(beta=0, positives="all")):
        loss = objective(x, y, condition=torch.zeros(5).long())
        (gradient,) = torch.autograd.grad(loss, x)
        assert loss == 0
        assert gradient.eq(0).all()


def test_a_hierarchy_of_ids_is_refused_with_the_way_out():
    x = torch.randn(4, 3)
    with pytest.raises(ValueError, match=r"class id per sample, \(b,\), not \(4, 2\)"):
        SCL()(x, x, condition=torch.zeros(4, 2).long())


def scores_of_others(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``e^g`` of all embeddings of two views at temperature 0.5, and which are of different samples."""
    unit, sample = normalize(torch.cat([x, y]), dim=1), torch.arange(len(x)).repeat(2)
    return (2 * unit @ unit.mT).exp(), sample[:, None] != sample


def mean_over(mask: Tensor, scores: Tensor) -> Tensor:
    assert mask.any(1).all()
    return (scores * mask).sum(1) / mask.sum(1)


@pytest.mark.parametrize("own_class_is_near", [True, False])
def test_h_scl_is_bounded_by_h_ucl_where_the_own_class_is_nearer(own_class_is_near):
    """Lemma 5.1 of Jiang et al. (2022); where its assumption is false, so may be the bound."""
    torch.manual_seed(0)
    group = torch.arange(24) % 2
    center = torch.eye(3)[group]
    x, y = (center + 0.1 * torch.randn(24, 3) for _ in range(2))
    labels = group if own_class_is_near else torch.arange(24) // 2
    scores, other = scores_of_others(x, y)
    hard, same = other & (scores >= 0.5), labels.repeat(2)[:, None] == labels.repeat(2)
    assumption = mean_over(hard & same, scores) >= mean_over(hard & ~same, scores)
    assert assumption.eq(own_class_is_near).all()
    settings = {"beta": 0.0, "threshold": 0.5, "o": 1.0}
    bound = HUCL(0.5, **settings)(x, y)
    assert (HSCL(0.5, **settings)(x, y, condition=labels) <= bound) == own_class_is_near


def test_ucl_is_bounded_by_h_scl_with_a_threshold_above_the_mean():
    """Lemma 5.2 of Jiang et al. (2022): minimizing the loss of UCL bounds nothing."""
    torch.manual_seed(0)
    x, y, labels = torch.randn(30, 3), torch.randn(30, 3), torch.arange(30) % 3
    scores, other = scores_of_others(x, y)
    threshold = mean_over(other, scores).max()
    different = labels.repeat(2)[:, None] != labels.repeat(2)
    assert (different & (scores >= threshold)).any(1).all()
    hard = HSCL(0.5, beta=0, threshold=float(threshold), o=1)(x, y, condition=labels)
    assert UCL(0.5, o=1)(x, y) < hard

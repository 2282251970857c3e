"""What must hold for the whole family of UCL, H-UCL, SCL, H-SCL and HCL."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from support import slow_hardness

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


# A threshold leaves pairs of views with unequal numbers of anchors.
@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if "threshold" not in s])
def test_four_views_are_the_mean_over_pairs_of_views(name):
    views = unit(4, 6, 5)
    labels = LABELS.tolist() if supervised(name) else None
    two = [
        slow_hardness.two_views(views[i], views[j], labels=labels, tau=0.5, **SETTINGS[name])
        for i in range(4)
        for j in range(i)
    ]
    fast = FAMILY[name]().loss(in_batch(views, Samples(condition(name))))
    torch.testing.assert_close(fast, sum(two) / len(two), rtol=1e-9, atol=0)


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
    ("build", "words"),
    [
        (partial(UCL, temperature=0), "temperature .* not 0"),
        (partial(UCL, o="batches"), "o must be one of 'batch', 'negatives', not 'batches'"),
        (partial(SCL, o=-1), "o must be a finite number above 0, not -1"),
        (partial(HUCL, beta=-0.5), "beta must be .* 0 or more, not -0.5"),
        (partial(HSCL, beta=float("nan")), "beta .* not nan"),
        (partial(HSCL, threshold=0.0), "threshold .* not 0.0"),
        (partial(SCL, positives="some"), "positives must be one of 'one', 'all', not 'some'"),
        (partial(HSCL, average="classes"), "average must be one of 'pairs', 'anchors'"),
        (partial(HCL, tau_plus=1), "tau_plus must be from 0 to below 1, not 1"),
        (partial(HCL, tau_plus=-0.1), "tau_plus must be from 0 to below 1, not -0.1"),
    ],
)
def test_values_out_of_range_are_named(build, words):
    with pytest.raises(ValueError, match=words):
        build()

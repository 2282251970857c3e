"""Gradients of all objectives, and gradients of these: right, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import every_objective as every
from support.every_objective import random_batch
from torch.nn.functional import normalize

from ccl_plugins.objectives import InfoNCE
from ccl_plugins.protocols import trait
from ccl_plugins.testing.objective_batches import (
    RawBatch,
    call,
    pairs_of,
    patches_of,
    queue_pairs,
)

CASES = [*every.plain_cases(), *every.changing_cases()]
PLACES = ["call", "queue"]
STOPPED = {
    ("cacr, other view", "call"),
    ("cacr_moco_v3, euclidean", "call"),
    ("hucl, fixed weights", "call"),
    *((str(case), "queue") for case in CASES if case.name == "cacr"),
    ("cacr_moco_v3, euclidean", "queue"),
    ("hucl, fixed weights", "queue"),
}
"""Losses with weights that carry no gradient: their gradient is not the slope of their value."""
OF_TORCH_ALONE = (
    "classification",
    "cluster_cross_entropy",
    "distillation",
    "koleo",
    "lightly",
    "prototypes",
    "regression",
)
"""Objectives whose gradient torch computes, so that it has one of its own."""


def function_of(case, place):
    """The loss as a function of views (2, 4, d) and of the objective's parameters, and both."""
    wide = ("cluster_cross_entropy", "classification", "regression", "prototypes")
    d = every.D if str(case).startswith(wide) else 3
    views, condition = random_batch(case, n=4)
    views, objective = views[..., :d].clone(), case.build(width=d)
    pairs = queue_pairs(objective, RawBatch(views, condition), 4, 0.0)

    def loss(moved, *parameters):
        if place == "call":
            return call(objective, RawBatch(moved, condition))
        anchors = normalize(moved, dim=-1) if objective.embedding == "sphere" else moved
        samples = replace(pairs.samples, patches=patches_of(objective, moved))
        return objective.loss(replace(pairs, anchors=anchors, samples=samples))

    return loss, [views.requires_grad_(), *objective.parameters()]


def second_order(loss, inputs):
    """The gradient of a function of the gradient."""
    gradients = torch.autograd.grad(loss(*inputs), inputs, create_graph=True, allow_unused=True)
    penalty = sum((g.square().sum() for g in gradients if g is not None), torch.zeros(()))
    return torch.autograd.grad(penalty, inputs, allow_unused=True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_gradient_is_that_of_the_value_and_its_own_is_right_or_refused(case, place):
    loss, inputs = function_of(case, place)
    if (str(case), place) not in STOPPED and not trait(case.build(), "stops_gradient"):
        assert torch.autograd.gradcheck(loss, inputs, fast_mode=True, atol=1e-4)
    if case.name in OF_TORCH_ALONE:
        assert torch.autograd.gradgradcheck(loss, inputs, fast_mode=True, atol=1e-4, rtol=1e-3)
        return
    with pytest.raises(RuntimeError, match="the gradient of that would silently lack a part"):
        second_order(loss, inputs)


@pytest.mark.parametrize("place", PLACES)
def test_a_second_derivative_of_anchors_in_parts_is_refused(place):
    objective = InfoNCE().double()
    views, condition = random_batch(every.Case("infonce"))
    batch = RawBatch(views.requires_grad_(), condition)
    pairs = (
        queue_pairs(objective, batch, 4, 0.0) if place == "queue" else pairs_of(objective, batch)
    )
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        second_order(lambda _: objective.loss(replace(pairs, anchors_at_once=3)), [views])

"""Gradients of gradients: in gradient penalties, influence functions and meta-learning."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import every_objective as every
from support.every_objective import random_batch
from torch.nn.functional import normalize

from ccl_plugins.numerics.logsumexp import EMPTY, _LogSumExp, masked
from ccl_plugins.objectives import InfoNCE, cclk, infonce, supcon, transport
from ccl_plugins.protocols import trait
from ccl_plugins.testing.objective_batches import RawBatch, call, patches_of, queue_pairs

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


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_objective_passes_gradcheck_and_gradgradcheck(case, place):
    loss, inputs = function_of(case, place)
    if (str(case), place) in STOPPED or trait(case.build(), "stops_gradient"):
        return
    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True, atol=1e-4)
    assert torch.autograd.gradgradcheck(loss, inputs, fast_mode=True, atol=1e-4, rtol=1e-3)


def test_a_repulsion_with_equal_weights_has_a_second_derivative():
    products = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def slope(x):
        loss = transport.repulsion(x, ~torch.eye(3, 4, dtype=torch.bool), None, 4).square().sum()
        return torch.autograd.grad(loss, x, create_graph=True)[0]

    assert torch.autograd.gradcheck(slope, products.requires_grad_())


def test_rows_of_a_repulsion_do_not_change_each_other():
    products = torch.tensor([[1.0, 0.9, 0.8], [-0.9, -1.0, -0.8]], dtype=torch.float64)
    keep = torch.ones(2, 3, dtype=torch.bool)
    found = transport.repulsion(products, keep, 1000.0, 3)
    torch.testing.assert_close(found, torch.tensor([0.0, -3.6], dtype=torch.float64))


def second_order(loss, inputs):
    """The gradient of a function of the gradient."""
    gradients = torch.autograd.grad(loss(*inputs), inputs, create_graph=True, allow_unused=True)
    penalty = sum((g.square().sum() for g in gradients if g is not None), torch.zeros(()))
    return torch.autograd.grad(penalty, inputs, allow_unused=True)


def plain_logsumexp(logits, weights, scale, leave_out=None, *links):
    logits = scale * logits
    if leave_out is not None:
        own = torch.ones_like(logits).diagonal(leave_out).diag_embed(leave_out)
        logits = logits.masked_fill(own[: len(logits), : logits.shape[1]] > 0, EMPTY)
    if weights is not None and weights.dtype == torch.bool:
        weights = torch.zeros_like(logits).masked_fill(~weights, EMPTY)
    logits = logits if weights is None else logits + weights
    value = logits.logsumexp(-1)
    return torch.where(value > EMPTY / 2, value, value.detach())


def plain_log_share(scale, k, *blocks):
    sims, keep, chosen = (torch.cat(blocks[i * k : i * k + k], 1) for i in range(3))
    logits = scale * sims
    number = chosen.sum(1).clamp_min(1)
    return masked(logits, keep).logsumexp(1) - (logits * chosen).sum(1) / number


def plain_repulsion(products, keep, t_minus, attached, *links):
    partly = torch.cat([products[:, :attached], products[:, attached:].detach()], 1)
    logits = (2 * t_minus if t_minus is not None else 0.0) * partly
    weights = logits.masked_fill(~keep, EMPTY).softmax(1)
    return torch.where(keep.any(1), 2 * (weights * products).sum(1) - 2, 0)


def plain_queue_logsumexp(queries, queue, *weighings):
    products, found = queries @ queue.T, []
    for weigh in weighings:
        weights = weigh(slice(0, len(queue)))
        found.append(plain_logsumexp(products, weights, 1.0))
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_order_gradients_equal_those_of_plain_torch(case, place, monkeypatch):
    loss, inputs = function_of(case, place)
    # A guide's reversal holds no factor constant: the gradient is another, and has a derivative.
    if trait(case.build(), "stops_gradient") and case.name != "guided":
        with pytest.raises(RuntimeError, match="the gradient of its gradient would silently lack"):
            second_order(loss, inputs)
        return
    found = second_order(loss, inputs)
    monkeypatch.setattr(_LogSumExp, "apply", plain_logsumexp)
    monkeypatch.setattr(supcon._LogShare, "apply", plain_log_share)
    monkeypatch.setattr(transport._Repulsion, "apply", plain_repulsion)
    for module in (cclk, infonce):
        monkeypatch.setattr(module, "queue_logsumexp", plain_queue_logsumexp)
    torch.testing.assert_close(found, second_order(loss, inputs), rtol=1e-8, atol=1e-10)


def test_infonces_hessian_is_that_of_cross_entropy():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)

    def plain(x):
        logits = normalize(x, dim=1) @ normalize(y, dim=1).T / 0.5
        own = torch.arange(5)
        return (
            torch.nn.functional.cross_entropy(logits, own)
            + torch.nn.functional.cross_entropy(logits.T, own)
        ) / 2

    found = torch.autograd.functional.hessian(lambda x: InfoNCE(0.5)(x, y), x)
    torch.testing.assert_close(found, torch.autograd.functional.hessian(plain, x))

"""Probes by gradient descent equal the update rules, written out."""

from __future__ import annotations

import math

import pytest
import torch
from support.measured import values
from torch.nn.functional import one_hot

from ccl_plugins.evaluators import LinearAdam, LinearProbe, LinearSGD
from ccl_plugins.evaluators.gradient_probes import head
from ccl_plugins.protocols import Frozen


def blobs(n=90, f=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 3
    return Frozen(torch.randn(n, f, generator=generator) + 2 * one_hot(label, f), {"label": label})


def trained(evaluator, x, y):
    """Weight and bias as the evaluator trains them, in float64."""
    generator = evaluator.plan.generator()
    model = head(x.shape[1], 3, generator).double()
    optimizer = evaluator._optimizer(model)
    evaluator.plan.train(model, optimizer, lambda rows: (x[r] for r in rows), y, generator)
    return model.weight.detach(), model.bias.detach()


def rates(schedule, drop, steps):
    """What the learning rate of each step is multiplied by."""
    for step in range(steps):
        if schedule == "cosine":
            yield 0.5 * (1 + math.cos(math.pi * step / steps))
        elif schedule == "step":
            yield 1.0 if step < 0.6 * steps else drop if step < 0.8 * steps else drop**2
        else:
            yield 1.0


def written_out(evaluator, x, y, update):
    """The same by softmax gradients and an update rule of one parameter, in loops."""
    plan = evaluator.plan
    generator = torch.Generator().manual_seed(plan.seed)
    weight = torch.empty(3, x.shape[1]).normal_(0, 0.01, generator=generator).double()
    parameters = [weight, torch.zeros(3).double()]
    states = [{}, {}]
    size, n = plan.batch_size, len(x)
    per_epoch = math.ceil(n / size)
    factors = iter(list(rates(plan.schedule, plan.drop, per_epoch * plan.epochs)))
    for _ in range(plan.epochs):
        order = torch.randperm(n, generator=generator)
        for first in range(0, n, size):
            rows = order[first : first + size]
            logits = x[rows] @ parameters[0].T + parameters[1]
            error = (logits.softmax(1) - one_hot(y[rows], 3)) / len(rows)
            gradients = [error.T @ x[rows], error.sum(0)]
            lr = plan.lr * next(factors)
            for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
                parameter -= lr * update(
                    gradient + evaluator.weight_decay * parameter, state, evaluator
                )
    return parameters


def sgd(gradient, state, evaluator):
    state["v"] = evaluator.momentum * state["v"] + gradient if state else gradient
    return gradient + evaluator.momentum * state["v"] if evaluator.nesterov else state["v"]


def adam(gradient, state, evaluator):
    t = state["t"] = state.get("t", 0) + 1
    b1, b2 = evaluator.beta1, 0.999
    state["m"] = b1 * state.get("m", 0) + (1 - b1) * gradient
    state["v"] = b2 * state.get("v", 0) + (1 - b2) * gradient.square()
    return state["m"] / (1 - b1**t) / ((state["v"] / (1 - b2**t)).sqrt() + 1e-8)


MOCO = {"lr": 30.0, "schedule": "step", "nesterov": False}
CACR = {"schedule": "step", "drop": 0.2, "beta1": 0.5, "weight_decay": 0.0}


@pytest.mark.parametrize(
    ("evaluator", "update"),
    [
        (LinearSGD(epochs=10, batch_size=32), sgd),
        (LinearSGD(epochs=10, batch_size=32, weight_decay=0.01, seed=3, **MOCO), sgd),
        (LinearAdam(epochs=10, batch_size=32), adam),
        (LinearAdam(epochs=10, batch_size=128, **CACR), adam),
    ],
    ids=["simclr", "moco", "hcl", "cacr"],
)
def test_the_weights_are_those_of_the_papers_update_rule(evaluator, update):
    data = blobs()
    x, y = data.features.double(), data.metadata["label"]
    found, expected = trained(evaluator, x, y), written_out(evaluator, x, y, update)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("evaluator", [LinearSGD, LinearAdam])
def test_a_trained_probe_reads_what_the_one_at_the_minimum_reads(evaluator):
    train, test = blobs(300), blobs(300, seed=1)
    name = {LinearSGD: "linear_sgd", LinearAdam: "linear_adam"}[evaluator]
    found = values(evaluator(lr=0.1)(train, test))
    assert found.keys() == {f"{name}/top1"}
    at_minimum = values(LinearProbe()(train, test))["linear/top1"]
    assert found[f"{name}/top1"] == pytest.approx(at_minimum, abs=0.03)
    renamed = Frozen(train.features, {"digit": 10 - 2 * train.metadata["label"]})
    assert list(values(evaluator(lr=0.1, column="digit")(renamed, renamed))) == [
        f"{name}-digit/top1"
    ]


@pytest.mark.parametrize("evaluator", [LinearSGD, LinearAdam])
def test_a_probe_leaves_the_random_numbers_of_others_alone(evaluator):
    state = torch.get_rng_state()
    first = values(evaluator(epochs=2)(blobs(), blobs(seed=1)))
    assert torch.get_rng_state().equal(state)
    torch.manual_seed(7)
    with torch.no_grad():
        assert values(evaluator(epochs=2)(blobs(), blobs(seed=1))) == first


def test_a_rest_of_one_sample_joins_the_batch_before():
    sizes = []

    def read(pieces):
        sizes.extend(map(len, pieces))
        return (blobs(9).features[piece] for piece in pieces)

    plan = LinearSGD(epochs=1, batch_size=4).plan
    model = head(5, 3, plan.generator())
    plan.train(
        model, torch.optim.SGD(model.parameters(), 0.1), read, torch.arange(9) % 3, plan.generator()
    )
    assert sizes == [4, 5]


def test_a_probe_that_diverges_names_its_learning_rate():
    train = blobs()
    with pytest.raises(ValueError, match=r"diverged with lr=1e\+38: a smaller learning rate"):
        LinearSGD(lr=1e38, schedule="constant")(train, train)


def test_nesterov_needs_momentum():
    with pytest.raises(ValueError, match="nesterov=True needs a momentum above 0"):
        LinearSGD(momentum=0.0)

"""What must hold for every objective, whatever it computes, beside the laws of the conformance kit.

The kit holds every objective against its laws as its example has it and in its variants; here are laws
for numbers that change over training.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from inspect import signature

import pytest
import torch
from lightly.utils import dist
from support import every_objective as every
from support.every_objective import Case, random_batch

from ccl_plugins.protocols import trait
from ccl_plugins.testing.objective_batches import (
    RawBatch,
    on_each_rank,
    pairs_of,
    patches_of,
)

PLAIN, CHANGING = every.plain_cases(), every.changing_cases()
each_case = pytest.mark.parametrize("case", PLAIN, ids=str)
each_changing_case = pytest.mark.parametrize("case", CHANGING, ids=str)


def call(objective, views, condition):
    named = {key: tuple(z) if z.ndim == 3 else z for key, z in condition.items()}
    features = tuple(views) if objective.reads_features else None
    patches = patches_of(objective, views)
    return objective(*views, condition=named or None, features=features, patches=patches)


def assert_finite_or_refused(loss, views):
    """NaN is never returned; where a loss is undefined, an error says for whom."""
    try:
        found = loss()
    except ValueError as error:
        assert "is undefined for" in str(error)  # noqa: PT017  # an error is one of two good ends
        return
    assert found.isfinite()
    (gradient,) = torch.autograd.grad(found, views)
    assert gradient.isfinite().all()


@each_changing_case
def test_two_ranks_equal_one_process_in_value_and_all_gradients(two_processes, case):
    views, condition = random_batch(case)
    whole = RawBatch(views, condition)
    expected = on_each_rank(case.build, whole)
    for found in two_processes(on_each_rank, case.build, whole):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def of_each_case_alone(rank=None):
    """By case, the loss of a batch that differs by rank, its gradient, and the loss after a step."""
    found = {}
    for case in [*PLAIN, *CHANGING]:
        objective = case.build()
        batch = RawBatch(*random_batch(case, seed=3 + (dist.rank() if rank is None else rank)))
        views = batch.views.clone().requires_grad_()
        pairs = pairs_of(objective, replace(batch, views=views))
        loss = objective.loss(pairs)
        found[str(case)] = [loss.detach(), *torch.autograd.grad(loss, views)]
        trait(objective, "after_step")()
        found[str(case)].append(objective.loss(pairs).detach())
    return found


def test_without_gathering_each_rank_has_the_loss_of_its_own_samples(two_processes):
    for rank, found in enumerate(two_processes(of_each_case_alone)):
        torch.testing.assert_close(found, of_each_case_alone(rank), rtol=1e-9, atol=1e-12)


@each_case
def test_float32_agrees_with_float64(case):
    views, condition = random_batch(case)
    exact = call(case.build(), views, condition)
    found = call(case.build().float(), views.float(), condition)
    torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", [n for n, c in every.classes().items() if "symmetric" in signature(c).parameters]
)
def test_a_loss_is_the_mean_of_both_ways_and_one_way_takes_the_earlier_view_as_the_anchor(name):
    case = Case(name, getattr(every.classes()[name], "EXAMPLE", {}))
    views, condition = random_batch(case)
    both, one_way = case.build(), case.with_params(symmetric=False).build()
    first, second = (call(one_way, x, condition) for x in (views, views.flip(0)))
    torch.testing.assert_close(call(both, views, condition), (first + second) / 2)
    assert (first - second).abs() > 1e-3


@each_changing_case
def test_copies_and_saved_weights_give_the_same_loss(case):
    (views, condition), objective = random_batch(case), case.build()
    objective.progress(1, 3)
    expected = call(objective, views, condition)
    loaded = case.build(seed=1)
    loaded.load_state_dict(objective.state_dict())
    for other in (copy.deepcopy(objective), loaded):
        torch.testing.assert_close(call(other, views, condition), expected)
        assert not {id(p) for p in other.parameters()} & {id(p) for p in objective.parameters()}


@each_case
def test_degenerate_batches_are_finite_at_a_low_temperature(case):
    """One class, all distinct, duplicate conditions, rows that no direction or kernel tells apart."""
    objective = case.build(dtype=torch.float32)
    if hasattr(objective, "temperature"):
        objective.temperature = 0.01
    for n, classes in ((2, 1), (2, 2), (5, 1), (5, 2), (5, 5)):
        ids = torch.arange(n) % classes
        columns = 3 if case.name == "regression" else 5  # as many as the head was made for
        condition = case.condition(ids, torch.eye(5)[ids, :columns])
        usual = torch.randn(2, n, every.D, generator=torch.Generator().manual_seed(n))
        flat = usual[:1, :1].repeat(2, n, 1)
        one_zero = usual.clone()
        one_zero[:, 0] = 0
        for views in (usual, flat, 0 * usual, one_zero, torch.stack([usual[0], -usual[0]])):
            views.requires_grad_()
            assert_finite_or_refused(partial(call, objective, views, condition), views)


NUMBERS = [
    (Case(name, {**getattr(objective, "EXAMPLE", {})}), key, number)
    for name, objective in every.classes().items()
    for key, _, number in every.numbers(objective)
]


@pytest.mark.parametrize(
    ("case", "key", "number"), NUMBERS, ids=[f"{c}, {k}" for c, k, _ in NUMBERS]
)
def test_every_number_takes_a_schedule(case, key, number):
    views, condition = random_batch(case)
    falling = {"schedule": "linear", "start": number, "end": number / 2}
    objective = case.with_params(**{key: falling}).build()
    for step, value in ((0, number), (9, number / 2)):
        objective.progress(step, 10)
        expected = call(case.with_params(**{key: value}).build(), views, condition)
        torch.testing.assert_close(
            call(objective, views, condition), expected, rtol=1e-6, atol=1e-9
        )
        assert key in objective.scalars()

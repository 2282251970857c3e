"""The laws of objectives in training: precision, processes, compilation, odd batches, queues."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor

from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import seeded
from ccl_plugins.testing.objective_batches import (
    EXACT,
    WIDTH,
    Batch,
    batch,
    call,
    loss_of,
    on_each_rank,
    on_one_rank,
    pairs_of,
    prepared,
    value_and_gradient,
)
from ccl_plugins.testing.objective_queue import queue_pairs
from ccl_plugins.testing.subject import Subject
from ccl_plugins.testing.two_ranks import on_two_ranks


def check_half_precision_is_computed_in_float32(subject: Subject) -> None:
    """Similarities over small temperatures overflow in half precision."""
    objective = prepared(subject, torch.float32)
    given = batch(objective)
    if given.extras:
        raise SkipTest("it reads extras, and pairs with extras are float32 in training")
    for dtype in (torch.bfloat16, torch.float16):
        narrow = given.to(dtype)
        with torch.autocast("cpu", dtype), seeded():
            low = call(objective, narrow)
        law = f"under autocast, {dtype} embeddings must give the float32 loss of the same numbers"
        with seeded():
            agree(law, low, call(objective, narrow.to(torch.float32)), rtol=1e-3, atol=1e-3)


def check_two_processes_equal_one(subject: Subject) -> None:
    """Each with half of the batch."""
    build = functools.partial(_build_prepared, subject.choice)
    given = batch(subject.build())
    try:
        pickle.dumps(build)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SkipTest(f"it cannot be sent to another process: {error}") from error
    expected = on_one_rank(build, given)
    for rank, found in enumerate(on_two_ranks(on_each_rank, build, given)):
        law = (
            "two processes with half of the batch each must give, on average, the loss and all"
            f' gradients of one; they do not on rank {rank} (see distributed = "mean")'
        )
        agree(law, found, expected, **EXACT)


def _build_prepared(choice: Any) -> Any:
    return prepared(Subject(choice.spec, choice=choice))


def check_compiles_without_graph_breaks(subject: Subject) -> None:
    """``loss(pairs)`` looks at no value, so that a device need not be waited for."""
    objective = prepared(subject)
    given = batch(objective)

    def loss(views: Tensor) -> Tensor:
        value: Tensor = objective.loss(pairs_of(objective, replace(given, views=views)))
        return value

    torch.compiler.reset()
    law = "loss(pairs) must compile without graph breaks: no branch on a value, no .item()"
    with may_not(law), seeded():
        found = torch.compile(loss, fullgraph=True, backend="eager")(given.views)
    agree("compiled it must give the same", found, loss_of(objective, given))


def check_degenerate_batches_are_finite_or_refused(subject: Subject) -> None:
    """One class, all distinct, two samples, equal or opposite or empty rows."""
    objective = prepared(subject, torch.float32)
    usual = batch(objective, n=5).views.float()
    flat = usual[:1, :1].expand_as(usual)
    opposite = usual[:1] * torch.tensor([(-1.0) ** i for i in range(len(usual))])[:, None, None]
    rows = {"random": usual, "identical": flat, "zero": 0 * usual, "opposite": opposite}
    for (name, views), n, classes in itertools.product(rows.items(), (2, 5), (1, 5)):
        ids = torch.arange(n) % classes
        condition = {
            k: ids if z.ndim == 1 else torch.eye(5)[ids].to(z.dtype)
            for k, z in batch(objective, n).condition.items()
        }
        given = replace(
            batch(objective).to(torch.float32), views=views[:, :n].clone(), condition=condition
        )
        try:
            value, gradient = value_and_gradient(lambda each: call(objective, each), given)
        except ValueError:
            continue  # to say that a loss is undefined is as good
        hold(
            "a loss that is not defined must raise a ValueError that says so, not be NaN or inf, and"
            " neither may its gradient",
            bool(value.isfinite() and gradient.isfinite().all()),
            f"of {n} samples in {len(ids.unique())} classes, rows of {WIDTH} {name} numbers, the loss"
            f" is {value}, the gradient's norm {gradient.norm()}",
        )


def check_a_queue_is_read_as_far_as_it_is_filled(subject: Subject) -> None:
    """Momentum keys and a queue, empty, half full and full."""
    objective = prepared(subject)
    given = batch(objective, n=4, views=max(objective.min_views, 2))
    for filled in (0, 3, 6):
        found = []
        for rest in (0.0, 7.0):
            pairs = functools.partial(queue_pairs, objective, filled=filled, rest=rest)
            found.append(value_and_gradient(_loss_of_pairs(objective, pairs), given))
        law = f"what stands in the empty places of a queue ({filled} of 6 filled) must not count"
        hold("with a queue the loss must be finite", bool(found[0][0].isfinite()), str(found[0][0]))
        agree(law, found[0], found[1], **EXACT)


def _loss_of_pairs(objective: Any, pairs: Callable[[Batch], Pairs]) -> Callable[[Batch], Tensor]:
    return lambda given: objective.loss(pairs(given))


CHECKS: list[Callable[[Subject], None]] = [
    check_half_precision_is_computed_in_float32,
    check_two_processes_equal_one,
    check_compiles_without_graph_breaks,
    check_degenerate_batches_are_finite_or_refused,
    check_a_queue_is_read_as_far_as_it_is_filled,
]

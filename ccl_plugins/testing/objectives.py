"""The laws of objectives: what they declare, values and gradients, and use in training."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args
from unittest import SkipTest

import torch
from torch import Tensor

from ccl_plugins.protocols import (
    StopsGradient,
    SupportsAfterStep,
    SupportsProgress,
    SupportsSetup,
    Table,
    ValueType,
)
from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.inputs import SAMPLES, seeded
from ccl_plugins.testing.objective_batches import (
    WIDTH,
    RawBatch,
    call,
    conditions,
    loss_of,
    on_each_rank,
    on_one_rank,
    pairs_of,
    queue_pairs,
    raw_batch,
    value_and_gradient,
)
from ccl_plugins.testing.subject import Subject
from ccl_plugins.testing.two_ranks import on_two_ranks

EXACT = {"rtol": 1e-9, "atol": 1e-12}
"""Tolerances for rounding in float64."""


def observe(subject: Subject, objective: Any) -> Any:
    """Value and gradient of the loss."""
    return _differentiated(prepare(objective), raw_batch(objective))


def prepared(subject: Subject, dtype: torch.dtype = torch.float64) -> Any:
    """A new objective in its state before the first step of training."""
    return prepare(subject.build(), dtype)


def prepare(objective: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Set up an objective with tables of 24 rows, and cast it."""
    if isinstance(objective, SupportsSetup):
        with seeded():  # equal parameters on two processes
            objective.setup({k: Table(z) for k, z in conditions(objective, SAMPLES).items()})
    return objective.to(dtype)


def _differentiated(objective: Any, batch: RawBatch) -> tuple[Tensor, Tensor]:
    return value_and_gradient(functools.partial(loss_of, objective), batch)


def _training_step(objective: Any, batch: RawBatch, step: int, total: int) -> Tensor:
    """The loss in a step of training without an optimizer."""
    if isinstance(objective, SupportsProgress):
        objective.progress(step, total)
    loss = loss_of(objective, batch)
    if isinstance(objective, SupportsAfterStep):
        objective.after_step()
    return loss


def check_declares_what_it_reads(subject: Subject) -> None:
    """The attributes that a pipeline reads before it reads data have legal values."""
    built = subject.build()
    legal = {
        "conditions": isinstance(built.conditions, Mapping)
        and all(z and {*z} <= {*get_args(ValueType)} for z in built.conditions.values()),
        "within_view": isinstance(built.within_view, bool),
        "min_views": isinstance(built.min_views, int) and built.min_views >= 1,
        "embedding": built.embedding in ("sphere", "raw"),
        "distributed": built.distributed in ("mean", "replicated"),
    }
    wrong = {name: getattr(built, name) for name, right in legal.items() if not right}
    require(
        "conditions must be names with one or more value types each, within_view a bool, min_views 1 or"
        ' more, embedding "sphere" or "raw", distributed "mean" or "replicated"',
        not wrong,
        f"it has {wrong}",
    )


def check_terms_average_to_the_loss(subject: Subject) -> None:
    """The loss is the weighted mean of the anchors' terms."""
    objective = prepared(subject)
    batch = raw_batch(objective)
    with seeded():
        values, weights = objective.terms(pairs_of(objective, batch))
    n = batch.views.shape[1]
    require(
        "terms(pairs) must be values and weights of one shape, (rows, n) with a column per anchor",
        values.shape == weights.shape and values.ndim == 2 and values.shape[1] == n,
        f"for {n} anchors they are {tuple(values.shape)} and {tuple(weights.shape)}",
    )
    require(
        "weights must be 0 or more, and values finite, also those of weight 0",
        bool((weights >= 0).all() and values.isfinite().all()),
        f"values {values}, weights {weights}",
    )
    law = "loss(pairs) must be the weighted mean of its terms"
    require_equal(law, loss_of(objective, batch), (values * weights).sum() / weights.sum())


def check_gradient_reaches_every_view(subject: Subject) -> None:
    """Every view has a gradient, with ``min_views`` views and with one more."""
    objective = prepared(subject)
    for count in (objective.min_views, objective.min_views + 1):
        value, gradient = _differentiated(objective, raw_batch(objective, views=count))
        require("the loss must be one finite number", value.ndim == 0 and bool(value.isfinite()))
        norms = gradient.flatten(1).norm(dim=1)
        require(
            "the gradient must be finite and reach every view",
            bool(gradient.isfinite().all() and (norms > 1e-9).all()),
            f"the norms of the gradients by {count} views are {norms.tolist()}",
        )


def check_gradient_is_that_of_the_value(subject: Subject) -> None:
    """The gradient equals finite differences in float64."""
    objective = prepared(subject)
    if isinstance(objective, StopsGradient) and objective.stops_gradient:
        raise SkipTest("stops_gradient = True declares a gradient that is not that of the value")
    batch = raw_batch(objective, n=4)
    with require_no_error(
        "the gradient must be that of the value; if a factor is held constant on purpose, declare it by"
        " an attribute stops_gradient = True"
    ):
        torch.autograd.gradcheck(
            lambda views: loss_of(objective, replace(batch, views=views)),
            batch.views.clone().requires_grad_(),
            fast_mode=True,
        )


def check_order_of_samples_does_not_matter(subject: Subject) -> None:
    """A permutation of the samples permutes the gradients and leaves the loss as it is."""
    objective = prepared(subject)
    batch = raw_batch(objective)
    order = torch.randperm(batch.views.shape[1], generator=torch.Generator().manual_seed(1))
    value, gradient = _differentiated(objective, batch)
    require_equal(
        "samples in another order must give the same loss, and gradients in that order",
        _differentiated(objective, batch.rows(order)),
        (value, gradient[:, order]),
        **EXACT,
    )


def check_loss_changes_nothing(subject: Subject) -> None:
    """The loss changes neither its input nor state, which changes in ``after_step``."""
    objective = prepared(subject)
    batch = raw_batch(objective)
    state, inputs = copy.deepcopy((objective.state_dict(), (batch.condition, batch.extras)))
    first = _differentiated(objective, batch)
    law = "loss(pairs) must not change the state dict"
    require_equal(law, objective.state_dict(), state, rtol=0, atol=0)
    law = "loss(pairs) must not change its input"
    require_equal(law, (batch.condition, batch.extras), inputs, rtol=0, atol=0)
    law = "a second loss(pairs) must equal the first"
    require_equal(law, _differentiated(objective, batch), first, **EXACT)


def check_goes_through_a_step(subject: Subject) -> None:
    """The methods that training calls, optional ones included, work in turn."""
    objective = prepared(subject)
    batch = raw_batch(objective)
    law = "progress(step, total), loss and after_step() must work in turn"
    with require_no_error(law):
        for step in range(2):
            loss = _training_step(objective, batch, step, 2)
            require(law, bool(loss.isfinite()), f"in step {step} the loss is {loss}")


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """The state dict holds everything that ``after_step`` changes."""
    objective, other = prepared(subject), prepared(subject)
    batch = raw_batch(objective)
    for step in range(2):
        _training_step(objective, batch, step, 4)
    other.load_state_dict(objective.state_dict())
    law = "after load_state_dict the next loss must equal that of the run that was not interrupted"
    require_equal(law, loss_of(other, batch), loss_of(objective, batch), **EXACT)


def check_is_called_on_embeddings(subject: Subject) -> None:
    """A call on raw embeddings, as in a user's own loop, gives the loss of their pairs."""
    objective = prepared(subject)
    batch = raw_batch(objective)
    with require_no_error("objective(*views, condition=...) must take raw embeddings"), seeded():
        loss = call(objective, batch)
    law = "a call on raw embeddings must give the loss of their pairs"
    require_equal(law, loss, loss_of(objective, batch), **EXACT)


def check_half_precision_is_computed_in_float32(subject: Subject) -> None:
    """The loss is computed in float32: in half precision, exponentials of similarities overflow."""
    objective = prepared(subject, torch.float32)
    batch = raw_batch(objective)
    if batch.extras:
        raise SkipTest("it reads extras, and pairs with extras are float32 in training")
    for dtype in (torch.bfloat16, torch.float16):
        narrow = batch.to(dtype)
        with torch.autocast("cpu", dtype), seeded():
            low = call(objective, narrow)
        law = f"under autocast, {dtype} embeddings must give the float32 loss of the same numbers"
        with seeded():
            expected = call(objective, narrow.to(torch.float32))
        require_equal(law, low, expected, rtol=1e-3, atol=1e-3)


def check_two_processes_equal_one(subject: Subject) -> None:
    """Two processes with half of the batch each give the loss and gradients of one process."""
    build = functools.partial(_build_prepared, subject.choice)
    batch = raw_batch(subject.build())
    try:
        pickle.dumps(build)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SkipTest(f"it cannot be sent to another process: {error}") from error
    expected = on_one_rank(build, batch)
    for rank, found in enumerate(on_two_ranks(on_each_rank, build, batch)):
        law = (
            "two processes with half of the batch each must give, on average, the loss and all"
            f' gradients of one process; rank {rank} does not (see distributed = "mean")'
        )
        require_equal(law, found, expected, **EXACT)


def _build_prepared(choice: Any) -> Any:
    return prepared(Subject(choice.spec, choice=choice))


def check_compiles_without_graph_breaks(subject: Subject) -> None:
    """``loss(pairs)`` compiles to one graph, because it reads no value on the host."""
    objective = prepared(subject)
    batch = raw_batch(objective)

    def loss(views: Tensor) -> Tensor:
        value: Tensor = objective.loss(pairs_of(objective, replace(batch, views=views)))
        return value

    torch.compiler.reset()
    law = "loss(pairs) must compile without graph breaks: no branch on a value, no .item()"
    with require_no_error(law), seeded():
        found = torch.compile(loss, fullgraph=True, backend="eager")(batch.views)
    law = "the compiled loss must equal the loss in eager mode"
    require_equal(law, found, loss_of(objective, batch))


def check_degenerate_batches_are_finite_or_refused(subject: Subject) -> None:
    """Tiny batches, one class, and equal, opposite or zero rows give a finite loss or a ValueError."""
    objective = prepared(subject, torch.float32)
    usual = raw_batch(objective, n=5).views.float()
    flat = usual[:1, :1].expand_as(usual)
    opposite = usual[:1] * torch.tensor([(-1.0) ** i for i in range(len(usual))])[:, None, None]
    rows = {"random": usual, "identical": flat, "zero": 0 * usual, "opposite": opposite}
    for (name, views), n, classes in itertools.product(rows.items(), (2, 5), (1, 5)):
        ids = torch.arange(n) % classes
        batch = raw_batch(objective, n).to(torch.float32)
        condition = {
            k: ids if z.ndim == 1 else torch.eye(5)[ids].to(z.dtype)
            for k, z in batch.condition.items()
        }
        batch = replace(batch, views=views[:, :n].clone(), condition=condition)
        try:
            value, gradient = value_and_gradient(functools.partial(call, objective), batch)
        except ValueError:
            continue  # the objective refuses this batch
        require(
            "where a loss is undefined, it must raise a ValueError; its value and gradient must never be"
            " NaN or infinite",
            bool(value.isfinite() and gradient.isfinite().all()),
            f"for {n} samples in {len(ids.unique())} classes, rows of {WIDTH} {name} numbers, the loss"
            f" is {value}, the gradient's norm {gradient.norm()}",
        )


def check_a_queue_is_read_as_far_as_it_is_filled(subject: Subject) -> None:
    """With momentum keys and a queue, the queue's empty places do not change the loss."""
    objective = prepared(subject)
    batch = raw_batch(objective, n=4, views=max(objective.min_views, 2))

    def loss(batch: RawBatch, filled: int, rest: float) -> Tensor:
        value: Tensor = objective.loss(queue_pairs(objective, batch, filled, rest))
        return value

    for filled in (0, 3, 6):
        zeros, sevens = (
            value_and_gradient(functools.partial(loss, filled=filled, rest=rest), batch)
            for rest in (0.0, 7.0)
        )
        law = f"numbers in the empty places of a queue ({filled} of 6 filled) must not count"
        require("with a queue the loss must be finite", bool(zeros[0].isfinite()), str(zeros[0]))
        require_equal(law, zeros, sevens, **EXACT)

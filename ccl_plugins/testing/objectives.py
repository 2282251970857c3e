"""The laws of objectives."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args
from unittest import SkipTest

import torch

from ccl_plugins.protocols import ValueType
from ccl_plugins.testing import objectives_in_training
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import seeded
from ccl_plugins.testing.objective_batches import (
    EXACT,
    batch,
    call,
    loss_of,
    pairs_of,
    prepare,
    prepared,
    value_and_gradient,
)
from ccl_plugins.testing.subject import Subject


def observe(subject: Subject, objective: Any) -> Any:
    """Value and gradient."""
    objective = prepare(objective)
    return value_and_gradient(lambda each: loss_of(objective, each), batch(objective))


def check_declares_what_it_reads(subject: Subject) -> None:
    """A pipeline checks its parts by these attributes before it reads data."""
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
    hold(
        "conditions must be names with one or more value types each, within_view a bool, min_views 1 or"
        ' more, embedding "sphere" or "raw", distributed "mean" or "replicated"',
        not wrong,
        f"it has {wrong}",
    )


def check_terms_average_to_the_loss(subject: Subject) -> None:
    """The loss is the weighted mean of what each anchor contributes."""
    objective = prepared(subject)
    given = batch(objective)
    with seeded():
        values, weights = objective.terms(pairs_of(objective, given))
    n = given.views.shape[1]
    hold(
        "terms(pairs) must be values and weights of one shape, (rows, n) with a column per anchor",
        values.shape == weights.shape and values.ndim == 2 and values.shape[1] == n,
        f"for {n} anchors they are {tuple(values.shape)} and {tuple(weights.shape)}",
    )
    hold(
        "a weight must be 0 or more, and a value finite, also where its weight is 0",
        bool((weights >= 0).all() and values.isfinite().all()),
        f"values {values}, weights {weights}",
    )
    mean = (values * weights).sum() / weights.sum()
    agree("loss(pairs) must be the weighted mean of its terms", loss_of(objective, given), mean)


def check_gradient_reaches_every_view(subject: Subject) -> None:
    """With as few views as it takes, and with one more."""
    objective = prepared(subject)
    for count in (objective.min_views, objective.min_views + 1):
        given = batch(objective, views=count)
        value, gradient = value_and_gradient(lambda each: loss_of(objective, each), given)
        hold("the loss must be one finite number", value.ndim == 0 and bool(value.isfinite()))
        norms = gradient.flatten(1).norm(dim=1)
        hold(
            "the gradient must be finite and reach every view",
            bool(gradient.isfinite().all() and (norms > 1e-9).all()),
            f"of {count} views the gradients' norms are {norms.tolist()}",
        )


def check_gradient_is_that_of_the_value(subject: Subject) -> None:
    """Finite differences in float64."""
    objective = prepared(subject)
    if getattr(objective, "stops_gradient", False):
        raise SkipTest("it says stops_gradient = True: its gradient is not that of its value")
    given = batch(objective, n=4)
    views = given.views.clone().requires_grad_()
    law = (
        "the gradient must be that of the value; where a factor is held constant on purpose, say so"
        " by an attribute stops_gradient = True"
    )
    with may_not(law):
        torch.autograd.gradcheck(
            lambda x: loss_of(objective, replace(given, views=x)), views, fast_mode=True
        )


def check_order_of_samples_does_not_matter(subject: Subject) -> None:
    """The same permutation of everything."""
    objective = prepared(subject)
    given = batch(objective)
    order = torch.randperm(given.views.shape[1], generator=torch.Generator().manual_seed(1))
    loss = functools.partial(loss_of, objective)
    value, gradient = value_and_gradient(loss, given)
    agree(
        "samples in another order must give the same loss, and gradients in that order",
        value_and_gradient(loss, given.rows(order)),
        (value, gradient[:, order]),
        **EXACT,
    )


def check_loss_changes_nothing(subject: Subject) -> None:
    """State is committed in ``after_step``; a loss may be asked for twice."""
    objective = prepared(subject)
    given = batch(objective)
    before = copy.deepcopy((given, objective.state_dict()))
    first = value_and_gradient(lambda each: loss_of(objective, each), given)
    after = (given, objective.state_dict())
    agree("loss(pairs) must leave the weights as they are", after[1], before[1], rtol=0, atol=0)
    for kept, now in ((before[0].condition, given.condition), (before[0].extras, given.extras)):
        agree("loss(pairs) must leave what it is given as it is", now, kept, rtol=0, atol=0)
    again = value_and_gradient(lambda each: loss_of(objective, each), given)
    agree("loss(pairs) asked for twice must be the same", again, first, **EXACT)


def check_goes_through_a_step(subject: Subject) -> None:
    """What training calls around the loss, where it is there."""
    objective = prepared(subject)
    given = batch(objective)
    law = "progress(step, total), loss and after_step() must work in turn"
    with may_not(law):
        for step in range(2):
            if hasattr(objective, "progress"):
                objective.progress(step, 2)
            loss = loss_of(objective, given)
            hold(law, bool(loss.isfinite()), f"in step {step} the loss is {loss}")
            if hasattr(objective, "after_step"):
                objective.after_step()


def check_a_resumed_run_goes_on_as_it_would_have(subject: Subject) -> None:
    """What ``after_step`` commits is in the state dict."""
    objective, other = prepared(subject), prepared(subject)
    given = batch(objective)
    for step in range(2):
        if hasattr(objective, "progress"):
            objective.progress(step, 4)
        loss_of(objective, given)
        if hasattr(objective, "after_step"):
            objective.after_step()
    other.load_state_dict(objective.state_dict())
    law = "after load_state_dict the next loss must be that of the run that was not stopped"
    agree(law, loss_of(other, given), loss_of(objective, given), **EXACT)


def check_is_called_on_embeddings(subject: Subject) -> None:
    """In a loop of one's own, as lightly's losses are."""
    objective = prepared(subject)
    given = batch(objective)
    with may_not("objective(*views, condition=...) must take raw embeddings"), seeded():
        called = call(objective, given)
    agree("a call on raw embeddings must be the loss", called, loss_of(objective, given), **EXACT)


CHECKS: list[Callable[[Subject], None]] = [
    check_declares_what_it_reads,
    check_terms_average_to_the_loss,
    check_gradient_reaches_every_view,
    check_gradient_is_that_of_the_value,
    check_order_of_samples_does_not_matter,
    check_loss_changes_nothing,
    check_goes_through_a_step,
    check_a_resumed_run_goes_on_as_it_would_have,
    check_is_called_on_embeddings,
    *objectives_in_training.CHECKS,
]

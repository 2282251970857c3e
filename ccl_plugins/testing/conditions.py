"""The laws of conditions."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.metadata.values import check_values
from ccl_plugins.protocols import (
    Embedded,
    Refresh,
    SupportsReadsEmbeddings,
    Table,
    ValueType,
)
from ccl_plugins.testing.audit import what_it_opens
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import SAMPLES, random, seeded, split
from ccl_plugins.testing.subject import Subject

VIEWS = 2


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """What conditions keep for the next run goes to a folder that is deleted."""
    before = os.environ.get("CCL_CACHE")
    with tempfile.TemporaryDirectory(prefix="ccl-check-") as folder:
        os.environ["CCL_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["CCL_CACHE"]
            if before is not None:
                os.environ["CCL_CACHE"] = before


def fit(
    condition: Any,
    reverse: bool = False,
    previous: Table | None = None,
    embed: Callable[[], Tensor] | None = None,
) -> Table:
    """The table of a static or refreshed condition, fitted as training does."""
    samples = split(reverse)
    with seeded(), empty_cache(), torch.no_grad():
        fitted = condition.fit(samples, embed or samples.embed, previous)
    return fitted if isinstance(fitted, Table) else Table(fitted)


def embedded(order: Tensor | None = None) -> Embedded:
    """A batch of two views of 8 samples, with gradient."""
    order = torch.arange(8) if order is None else order
    parts = [random(VIEWS, 8, width, seed=width)[:, order] for width in (12, 6, 6)]
    features, *unit = [x.requires_grad_() for x in parts]
    return Embedded(features, *(normalize(x, dim=-1) for x in unit))


def observe(subject: Subject, condition: Any) -> Any:
    """Its values."""
    if condition.refresh == "batch":
        return condition(embedded())
    table = fit(condition)
    return table.values, dict(table.extras)


def check_declares_life_and_measure(subject: Subject) -> None:
    """By which a pipeline knows when it is computed and who may read it."""
    condition = subject.build()
    hold(
        f"refresh must be one of {get_args(Refresh)}, and value_type one of {get_args(ValueType)}",
        condition.refresh in get_args(Refresh) and condition.value_type in get_args(ValueType),
        f"they are {condition.refresh!r} and {condition.value_type!r}",
    )
    wanted = "__call__" if condition.refresh == "batch" else "fit"
    hold(
        "a static or refreshed condition must have fit(dataset, embed, previous), an online one"
        " __call__(embedded)",
        hasattr(condition, wanted),
        f"it is {condition.refresh} and has no {wanted}",
    )


def check_constructor_reads_nothing(subject: Subject) -> None:
    """A pipeline is composed, and refused, before any file is read."""
    subject.build()  # what is imported late is imported now
    opened = what_it_opens(subject.build)
    hold("the constructor must read nothing: read in fit", not opened, f"it did {opened}")


def check_values_are_of_its_measure(subject: Subject) -> None:
    """One row per sample; class ids, 0 and 1, or finite numbers."""
    condition = subject.build()
    if condition.refresh == "batch":
        values = condition(embedded())
        shapes = ((8,), (8, *values.shape[1:2]), (VIEWS, 8, *values.shape[2:3]))
        hold(
            "the values of a batch of u views of n samples must be (n,), (n, c) or (u, n, c)",
            tuple(values.shape) in shapes,
            f"for u = {VIEWS} and n = 8 they are {tuple(values.shape)}",
        )
        values = values[0] if values.ndim == 3 else values
    else:
        values = fit(condition).values
    with may_not(f"the values must be right for the value type {condition.value_type!r}"):
        missing: Any = getattr(condition, "missing", "error")
        check_values(str(subject), values, condition.value_type, len(values), missing)
        size = 8 if condition.refresh == "batch" else SAMPLES
        hold("there must be one row per sample", len(values) == size, f"{len(values)} of {size}")


def check_is_deterministic(subject: Subject) -> None:
    """The same samples, the same random numbers: the same values."""
    first, second = subject.build(), subject.build()
    observed = subject.observe(first)
    agree("a condition fitted twice must be the same", subject.observe(first), observed)
    agree("two that are built alike must be the same", subject.observe(second), observed)


def check_rows_belong_to_samples(subject: Subject) -> None:
    """Samples in another order, the rows in that order; class ids may have other numbers."""
    condition = subject.build()
    law = (
        "row i must be of sample i: with the samples in another order, rows must come in that order"
    )
    if condition.refresh == "batch":
        order = torch.arange(7, -1, -1)
        values, moved = condition(embedded()), condition(embedded(order))
        values = values[:, order] if values.ndim == 3 else values[order]
    else:
        values, moved = fit(condition).values, fit(condition, reverse=True).values.flip(0)
    if condition.value_type == "categorical":
        values, moved = _together(values), _together(moved)
    agree(law, moved, values, rtol=1e-4, atol=1e-5)


def _together(ids: Tensor) -> Tensor:
    """Which samples share a class: (N, N), for a hierarchy (N, N, L), per view (u, N, N, L)."""
    return ids[:, :, None] == ids[:, None] if ids.ndim == 3 else ids[:, None] == ids[None]


def check_fits_again_after_itself(subject: Subject) -> None:
    """A refreshed condition starts from its last table, and changes neither that nor the data."""
    condition = subject.build()
    if condition.refresh == "batch":
        return
    first = fit(condition)
    kept = first.values.clone()
    law = "fit(dataset, embed, previous) must take its own last table"
    with may_not(law):
        again = fit(condition, previous=first)
    hold(law, again.values.shape == kept.shape, f"{tuple(kept.shape)}, {tuple(again.values.shape)}")
    agree("fit must leave the last table as it is", first.values, kept, rtol=0, atol=0)


def check_declares_that_it_reads_embeddings(subject: Subject) -> None:
    """All processes compute the embeddings before the first one fits, so training must know."""
    condition = subject.build()
    if isinstance(condition, SupportsReadsEmbeddings) and condition.reads_embeddings:
        return
    if condition.refresh != "batch":
        calls: list[int] = []

        def embed() -> Tensor:
            calls.append(1)
            return split().embed()

        fit(condition, embed=embed)
        hold(
            "a condition whose fit calls embed() must have reads_embeddings = True",
            not calls,
            "it calls embed()",
        )


def check_has_no_gradient(subject: Subject) -> None:
    """A condition says what is alike; it is not learned through."""
    condition = subject.build()
    if condition.refresh != "batch":
        return
    hold(
        "an online condition must be detached: return values.detach()",
        not condition(embedded()).requires_grad,
        "its values require a gradient",
    )


CHECKS: list[Callable[[Subject], None]] = [
    check_declares_life_and_measure,
    check_constructor_reads_nothing,
    check_values_are_of_its_measure,
    check_is_deterministic,
    check_rows_belong_to_samples,
    check_fits_again_after_itself,
    check_declares_that_it_reads_embeddings,
    check_has_no_gradient,
]

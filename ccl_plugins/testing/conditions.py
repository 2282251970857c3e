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
    SupportsMissing,
    SupportsReadsEmbeddings,
    Table,
    ValueType,
)
from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.audit import what_it_opens
from ccl_plugins.testing.inputs import SAMPLES, Split, normal, seeded
from ccl_plugins.testing.subject import Subject

VIEWS, BATCH_SIZE = 2, 8


def observe(subject: Subject, condition: Any) -> Any:
    """Its values."""
    if condition.refresh == "batch":
        return condition(embedded())
    table = fit(condition)
    return table.values, dict(table.extras)


def fit(
    condition: Any,
    reverse: bool = False,
    previous: Table | None = None,
    embed: Callable[[], Tensor] | None = None,
) -> Table:
    """The table of a fitted condition, for the example split in its order or in reverse."""
    split = Split(torch.arange(SAMPLES).flip(0) if reverse else None)
    with seeded(), empty_cache(), torch.no_grad():
        fitted = condition.fit(split, embed or split.embed, previous)
    return fitted if isinstance(fitted, Table) else Table(fitted)


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """Redirect the cache of conditions to a temporary folder."""
    before = os.environ.get("CCL_CACHE")
    with tempfile.TemporaryDirectory(prefix="ccl-check-") as folder:
        os.environ["CCL_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["CCL_CACHE"]
            if before is not None:
                os.environ["CCL_CACHE"] = before


def embedded(order: Tensor | None = None) -> Embedded:
    """A batch of two views of 8 samples, with gradient."""
    order = torch.arange(BATCH_SIZE) if order is None else order
    parts = [normal(VIEWS, BATCH_SIZE, width, seed=width)[:, order] for width in (12, 6, 6)]
    features, *unit = [x.requires_grad_() for x in parts]
    return Embedded(features, *(normalize(x, dim=-1) for x in unit))


def check_declares_refresh_and_value_type(subject: Subject) -> None:
    """``refresh`` and ``value_type`` are legal, and the method that ``refresh`` asks for exists."""
    condition = subject.build()
    require(
        f"refresh must be one of {get_args(Refresh)}, and value_type one of {get_args(ValueType)}",
        condition.refresh in get_args(Refresh) and condition.value_type in get_args(ValueType),
        f"they are {condition.refresh!r} and {condition.value_type!r}",
    )
    member = "__call__" if condition.refresh == "batch" else "fit"
    require(
        'a condition with refresh "never" or "epoch" must have fit(split, embed, previous), one with'
        ' "batch" must have __call__(embedded)',
        hasattr(condition, member),
        f"its refresh is {condition.refresh!r}, and it has no {member}",
    )


def check_constructor_reads_nothing(subject: Subject) -> None:
    """The constructor opens nothing, because pipelines are checked before any file is read."""
    subject.build()  # imports that happen late happen now
    opened = what_it_opens(subject.build)
    law = "the constructor must open no file or connection: read in fit"
    require(law, not opened, f"it caused {opened}")


def check_values_have_its_value_type(subject: Subject) -> None:
    """Values have one row per sample, and are class ids, 0 and 1, or finite numbers as declared."""
    condition = subject.build()
    if condition.refresh == "batch":
        size, values = BATCH_SIZE, condition(embedded())
        shapes = ((size,), (size, *values.shape[1:2]), (VIEWS, size, *values.shape[2:3]))
        require(
            "the values of a batch of u views of n samples must be (n,), (n, c) or (u, n, c)",
            tuple(values.shape) in shapes,
            f"for u = {VIEWS} and n = {size} they are {tuple(values.shape)}",
        )
        values = values[0] if values.ndim == 3 else values
    else:
        size, values = SAMPLES, fit(condition).values
    with require_no_error(f"the values must be right for the value type {condition.value_type!r}"):
        missing = condition.missing if isinstance(condition, SupportsMissing) else "error"
        check_values(str(subject), values, condition.value_type, len(values), missing)
        require("there must be one row per sample", len(values) == size, f"{len(values)} of {size}")


def check_is_deterministic(subject: Subject) -> None:
    """Equal samples and equal seeds give equal values."""
    first, second = subject.build(), subject.build()
    observed = subject.observe(first)
    law = "a condition fitted twice must give equal values"
    require_equal(law, subject.observe(first), observed)
    law = "two conditions built alike must give equal values"
    require_equal(law, subject.observe(second), observed)


def check_rows_belong_to_samples(subject: Subject) -> None:
    """Rows follow the order of samples; the numbers of class ids may change."""
    condition = subject.build()
    law = "row i must belong to sample i: samples in another order must give rows in that order"
    if condition.refresh == "batch":
        order = torch.arange(BATCH_SIZE).flip(0)
        values, moved = condition(embedded()), condition(embedded(order))
        values = values[:, order] if values.ndim == 3 else values[order]
    else:
        values, moved = fit(condition).values, fit(condition, reverse=True).values.flip(0)
    if condition.value_type == "categorical":
        values, moved = _same_class(values), _same_class(moved)
    require_equal(law, moved, values, rtol=1e-4, atol=1e-5)


def _same_class(ids: Tensor) -> Tensor:
    """Which samples share a class: (N, N), for a hierarchy (N, N, L), per view (u, N, N, L)."""
    return ids[:, :, None] == ids[:, None] if ids.ndim == 3 else ids[:, None] == ids[None]


def check_fits_again_after_itself(subject: Subject) -> None:
    """``fit`` accepts its previous table as a warm start, and does not change it."""
    condition = subject.build()
    if condition.refresh == "batch":
        return
    first = fit(condition)
    before = first.values.clone()
    law = "fit(split, embed, previous) must accept its own previous table"
    with require_no_error(law):
        again = fit(condition, previous=first).values
    require(law, again.shape == before.shape, f"{tuple(before.shape)}, {tuple(again.shape)}")
    law = "fit must not change the previous table"
    require_equal(law, first.values, before, rtol=0, atol=0)


def check_declares_that_it_reads_embeddings(subject: Subject) -> None:
    """All processes compute the embeddings before the first one fits, so training must know."""
    condition = subject.build()
    declared = isinstance(condition, SupportsReadsEmbeddings) and condition.reads_embeddings
    if declared or condition.refresh == "batch":
        return
    calls: list[Tensor] = []

    def embed() -> Tensor:
        calls.append(Split().embed())
        return calls[-1]

    fit(condition, embed=embed)
    law = "a condition whose fit calls embed() must have reads_embeddings = True"
    require(law, not calls, "it calls embed()")


def check_has_no_gradient(subject: Subject) -> None:
    """Values that are computed from the embedded batch carry no gradient."""
    condition = subject.build()
    if condition.refresh != "batch":
        return
    require(
        "the values of a batch must carry no gradient: return values.detach()",
        not condition(embedded()).requires_grad,
        "they require a gradient",
    )

"""The laws of conditions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, get_args
from unittest import mock

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.metadata.fitted import Embeddings, one_of_each, variables
from ccl_plugins.metadata.variable import check_values
from ccl_plugins.protocols import Embedded, Refresh, Table, trait
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_unchanged,
    what_it_opens,
)
from ccl_plugins.testing.inputs import SAMPLES, Split, normal, seeded
from ccl_plugins.testing.subject import Subject

VIEWS, BATCH_SIZE = 2, 8


def observe(subject: Subject, condition: Any) -> Any:
    """Its values."""
    if condition.refresh == "batch":
        return values_of(condition)
    return {key: (table.values, dict(table.extras)) for key, table in fit(condition).items()}


def fit(
    condition: Any,
    order: Tensor | None = None,
    previous: Mapping[str, Table] | None = None,
    embed: Callable[[], Tensor] | None = None,
    split: Split | None = None,
) -> dict[str, Table]:
    """The table of each variable of a condition, for the example split in its order or in another."""
    before: Any = previous[""] if previous and "" in previous else previous
    split = split or Split(order)
    with (
        tempfile.TemporaryDirectory(prefix="ccl-check-") as cache,
        mock.patch.dict(os.environ, CCL_CACHE=cache),
        seeded(),
        torch.no_grad(),
    ):
        fitted = condition.fit(split, Embeddings(embed or split.embed), before)
    by_variable = _by_variable(condition, fitted)
    return {k: each if isinstance(each, Table) else Table(each) for k, each in by_variable.items()}


def _parts(condition: Any) -> dict[str, Any]:
    """The variables of a condition by name; a condition of one variable by ""."""
    if not isinstance(condition.value_type, Mapping):
        return {"": condition}
    return {each.key: each for each in variables({"condition": condition}).values()}


def _by_variable(condition: Any, computed: Any) -> dict[str, Any]:
    parts = _parts(condition)
    return dict(zip(parts, one_of_each([*parts.values()], computed), strict=True))


def embedded(order: Tensor | None = None) -> Embedded:
    """A batch of two views of 8 samples, with gradient, in their order or in another."""
    parts = [normal(VIEWS, BATCH_SIZE, width, seed=width) for width in (12, 6, 6)]
    features, x, y = [(x if order is None else x[:, order]).requires_grad_() for x in parts]
    return Embedded(features, normalize(x, dim=-1), normalize(y, dim=-1))


def values_of(condition: Any, order: Tensor | None = None) -> dict[str, Tensor]:
    """The values of each variable for the example samples, in their order or in another."""
    if condition.refresh == "batch":
        return _by_variable(condition, condition(embedded(order)))
    return {key: table.values for key, table in fit(condition, order).items()}


def check_declares_refresh_and_value_type(subject: Subject) -> None:
    """``refresh`` and ``value_type`` must be legal, and the method for this ``refresh`` must exist.

    That is ``fit(split, embed, previous)`` with "never" and "epoch", ``__call__(embedded)`` with "batch".
    A condition of several variables has a mapping of names as ``value_type``.
    """
    condition = subject.build()
    refresh = condition.refresh
    require(
        refresh in get_args(Refresh), f"refresh is {refresh!r}, and must be {get_args(Refresh)}"
    )
    try:
        variables({"condition": condition})
    except ValueError as error:
        raise AssertionError(str(error)) from error
    member = "__call__" if condition.refresh == "batch" else "fit"
    report = f"its refresh is {condition.refresh!r}, and it has no {member}"
    require(hasattr(condition, member), report)


def check_constructor_reads_nothing(subject: Subject) -> None:
    """The constructor must open no file or connection: pipelines are checked before files are read."""
    subject.build()  # late imports happen here
    opened = what_it_opens(subject.build)
    require(not opened, f"it caused {opened}: read in fit")


def check_values_have_its_value_type(subject: Subject) -> None:
    """Values must have one row per sample, and be class ids, 0 and 1, or finite numbers as declared.

    The values of a batch of u views of n samples must be (n,), (n, c) or (u, n, c).  A condition of several
    variables must return a mapping of the names in ``value_type``.
    """
    condition = subject.build()
    size = BATCH_SIZE if condition.refresh == "batch" else SAMPLES
    for key, values in values_of(condition).items():
        variable = _parts(condition)[key]
        if condition.refresh == "batch":
            shapes = ((size,), (size, *values.shape[1:2]), (VIEWS, size, *values.shape[2:3]))
            report = f"for u = {VIEWS} and n = {size} they are {tuple(values.shape)}"
            require(tuple(values.shape) in shapes, report)
        missing = trait(variable, "missing")
        place = f"{subject}/{key}" if key else str(subject)
        for of_view in values if values.ndim == 3 and condition.refresh == "batch" else [values]:
            check_values(place, of_view, variable.value_type, len(of_view), missing)
            require(len(of_view) == size, f"{size} samples gave {len(of_view)} rows")


def check_is_deterministic(subject: Subject) -> None:
    """Equal samples and equal seeds must give equal values."""
    first, second = subject.build(), subject.build()
    observed = subject.observe(first)
    require_equal(subject.observe(first), observed, "fitted twice")
    require_equal(subject.observe(second), observed, "built twice")


def check_rows_belong_to_samples(subject: Subject) -> None:
    """Samples in another order must give rows in that order; the numbers of class ids may change."""
    condition = subject.build()
    size = BATCH_SIZE if condition.refresh == "batch" else SAMPLES
    # No reverse order, in which blocks of positions, and every third one, stay together.
    order = torch.randperm(size, generator=torch.Generator().manual_seed(41))
    moved = values_of(condition, order)
    for key, values in values_of(condition).items():
        rows, expected = moved[key], values[:, order] if values.ndim == 3 else values[order]
        if _parts(condition)[key].value_type == "categorical":
            rows, expected = _same_class(rows), _same_class(expected)
        require_equal(rows, expected, key, rtol=1e-4, atol=1e-5)


def _same_class(ids: Tensor) -> Tensor:
    """Which samples share a class: (N, N), for a hierarchy (N, N, L), per view (u, N, N, L)."""
    return ids[:, :, None] == ids[:, None] if ids.ndim == 3 else ids[:, None] == ids[None]


def check_leaves_the_split_as_it_is(subject: Subject) -> None:
    """``fit`` must change no image and no metadata: training and evaluators read them next."""
    condition = subject.build()
    if condition.refresh == "batch":
        return
    split = Split()
    columns = [*split.metadata]
    with require_unchanged(lambda: {**split.metadata, "its images": split.images}):
        fit(condition, split=split)
    require([*split.metadata] == columns, f"the columns are {[*split.metadata]} now")


def check_fits_again_after_itself(subject: Subject) -> None:
    """``fit`` must accept its previous table as a warm start, and must not change it."""
    condition = subject.build()
    if condition.refresh == "batch":
        return
    first = fit(condition)
    kept = {key: (table.values, dict(table.extras)) for key, table in first.items()}
    with require_unchanged(lambda: kept, where="the previous table"):
        again = fit(condition, previous=first)
    for key, table in again.items():
        shapes = tuple(kept[key][0].shape), tuple(table.values.shape)
        require(shapes[0] == shapes[1], f"the shapes are {', '.join(map(str, shapes))}")


def check_declares_that_it_reads_embeddings(subject: Subject) -> None:
    """A condition whose ``fit`` calls ``embed()`` must have ``reads_embeddings = True``.

    All processes compute the embeddings before the first one fits.
    """
    condition = subject.build()
    if not trait(condition, "reads_embeddings") and condition.refresh != "batch":
        embed = mock.Mock(side_effect=Split().embed)
        fit(condition, embed=embed)
        require(not embed.called, "it calls embed()")


def check_has_no_gradient(subject: Subject) -> None:
    """The values of a batch must carry no gradient: return ``values.detach()``."""
    condition = subject.build()
    if condition.refresh == "batch":
        for values in values_of(condition).values():
            require(not values.requires_grad, "they require a gradient")

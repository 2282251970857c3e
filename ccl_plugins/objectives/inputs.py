"""Checks of the raw embeddings and conditions that an objective is called on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from ccl_plugins.files.arrays import UNSIGNED
from ccl_plugins.protocols import ValueType

Wanted: TypeAlias = Mapping[str, Sequence[ValueType]]
"""The conditions that an objective reads, and the value types it accepts for each."""

Given: TypeAlias = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]
"""The forms in which a caller may give conditions."""


class Questions:
    """Checks of the values of a call, whose results are read from the device together.

    A read waits for all work launched before. So a question is a number on the device, which is
    finite if the values are right, and only the sum of all questions is read. If the sum is not
    finite, the questions are read one by one.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[Tensor, Callable[[], None]]] = []

    def ask(self, number: Tensor, refuse: Callable[[], None]) -> None:
        """Keep a question's number, and the function that raises an error if the values are wrong."""
        self._asked.append((number.detach(), refuse))

    def answered(self, *more: Tensor) -> bool:
        """Whether all questions' numbers, and the given ones, are finite; this waits for the device."""
        numbers = [*more, *(number for number, _ in self._asked)]
        return not numbers or math.isfinite(sum(numbers[1:], numbers[0].detach()))

    def mark(self, x: Tensor) -> Tensor:
        """``x``, or NaN if an answer is wrong; this waits for nothing."""
        wrong = [~number.isfinite() for number, _ in self._asked]
        return x.masked_fill(torch.stack(wrong).any(), torch.nan) if wrong else x

    def refuse(self) -> None:
        """Raise the error of the first question that fails, if any does: a sum may also overflow."""
        for _, refuse in self._asked:
            refuse()


def stack_views(name: str, views: Sequence[Tensor], min_views: int, questions: Questions) -> Tensor:
    """Embeddings (b, d) of several views as one tensor (u, b, d); ``name`` is the objective's name."""
    if len(views) < min_views:
        raise ValueError(f"{name} needs at least {min_views} views, not {len(views)}")
    shapes = [tuple(v.shape) for v in views]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2 or not shapes[0][1]:
        raise ValueError(f"the views must be (b, d) embeddings of one shape, not {shapes}")
    if others := [view.dtype for view in views if not view.is_floating_point()]:
        raise TypeError(f"the views must be embeddings of floats, not {others[0]}")
    if shapes[0][0] < 2 <= min_views:  # an objective of a single view compares no samples
        raise ValueError(f"{name} compares samples: a batch needs at least 2, not {shapes[0][0]}")
    return _finite("view", views, questions)


def stack_features(
    name: str, features: Sequence[Tensor], views: Tensor, questions: Questions
) -> Tensor:
    """Backbone features (b, f) of the views, or of the first of them, as one tensor (u, b, f).

    Args:
        name: The objective's name.
        features: The caller's argument.
        views: (u, b, d).
        questions: Gets the questions about the values.
    """
    several = isinstance(features, tuple | list)
    shapes = [tuple(getattr(f, "shape", ())) for f in (features if several else [])]
    right = 1 <= len(shapes) <= len(views) and len(set(shapes)) == 1
    if not right or len(shapes[0]) != 2 or shapes[0][0] != views.shape[1]:
        given = shapes if several else f"a {type(features).__name__}"
        raise ValueError(
            f"{name} needs features=(f0, f1, ...), a (b, f) tensor for each view with b ="
            f" {views.shape[1]}, not {given}"
        )
    if others := [view.dtype for view in features if not view.is_floating_point()]:
        raise TypeError(f"features must be floats, not {others[0]}")
    return _finite("features of view", features, questions)


def _finite(what: str, tensors: Sequence[Tensor], questions: Questions) -> Tensor:
    """Tensors of one shape as one; an error names those with NaN or inf by their numbers."""
    stacked = _stacked(tensors)

    def refuse() -> None:
        for number, tensor in enumerate(tensors):
            _refuse_non_finite(f"{what} {number}", tensor)

    if not torch.compiler.is_compiling():
        questions.ask(stacked.sum(), refuse)
    return stacked


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape as one, in the widest of their types: autocast does not stack all of them."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        return torch.stack([*tensors])


def read_condition(
    name: str,
    wanted: Wanted,
    given: Given | None,
    views: Tensor,
    questions: Questions,
    ignore: bool = False,
) -> dict[str, Tensor]:
    """The values of each condition that an objective reads.

    Args:
        name: The objective's name.
        wanted: The conditions that it reads.
        given: The caller's argument.
        views: (u, b, d).
        questions: Gets the questions about the values.
        ignore: Whether values may be missing: NaN, or -1 among class ids.
    """
    named = by_name(name, wanted, given)
    return {
        key: _values(name, key, z, wanted[key], views, questions, ignore)
        for key, z in named.items()
    }


def by_name(name: str, wanted: Wanted, given: Given | None) -> dict[str, object]:
    """What the caller gave for each condition that an objective reads; arguments as in `read_condition`.

    Raises:
        TypeError: For a condition that is missing, and for one that is not read.
    """
    if given is None:
        if wanted:
            raise TypeError(
                f"{name} needs a condition ({_list(wanted)}): call it with condition=..."
            )
        return {}
    if not wanted:
        raise TypeError(f"{name} reads no condition, but condition= was given")
    if isinstance(given, Mapping):
        named: Mapping[str, object] = given
    elif len(wanted) > 1:
        raise TypeError(
            f"{name} reads several conditions ({_list(wanted)}): give them by name,"
            " condition={...}"
        )
    else:
        named = {next(iter(wanted)): given}
    if missing := [key for key in wanted if key not in named]:
        raise TypeError(f"{name} reads the condition {missing[0]!r}, but got {sorted(named)}")
    if unread := [key for key in named if key not in wanted]:
        raise TypeError(f"{name} reads {_list(wanted)}, but not the condition {unread[0]!r}")
    return {key: named[key] for key in wanted}


def value_type_of(z: Tensor) -> ValueType:
    """The value type of a tensor: floats are continuous, a single dimension of integers is class ids.

    Bool and uint8 columns are 0/1 attributes.  Objectives that take attributes also take floats.
    """
    if z.dtype.is_floating_point:
        return "continuous"
    return "multi_label" if z.ndim == 2 and z.dtype in (torch.bool, torch.uint8) else "categorical"


def _values(
    name: str,
    key: str,
    z: object,
    accepted: Sequence[ValueType],
    views: Tensor,
    questions: Questions,
    ignore: bool,
) -> Tensor:
    if isinstance(z, (tuple, list)):  # torch 2.8 cannot compile a union
        if len(z) != len(views):
            raise ValueError(
                f"{key} has {len(z)} tensors for {len(views)} views: give one per view"
            )
        parts = [_values(name, key, part, accepted, views, questions, ignore) for part in z]
        if parts[0].ndim != 2:
            raise ValueError(f"{key} given per view must be (b, c), not {tuple(parts[0].shape)}")
        return _stacked(parts)
    if not isinstance(z, Tensor):
        raise TypeError(f"{key} must be a tensor, not {type(z).__name__}")
    if z.ndim not in (1, 2) or z.shape[0] != views.shape[1]:
        raise ValueError(
            f"{key} must have one row per sample, (b,) or (b, c) with b = {views.shape[1]},"
            f" not {tuple(z.shape)}"
        )
    z = of_type(name, key, z, accepted)
    if torch.compiler.is_compiling():
        return z
    ask_of_values(key, z, questions, ignore)
    if not z.dtype.is_floating_point and z.dtype not in (torch.bool, torch.uint8):
        # Before the question is answered, an id may be an index.
        z = z.clamp_min(-1 if ignore else 0)
    return z


def of_type(name: str, key: str, z: object, accepted: Sequence[ValueType]) -> Tensor:
    """The values of a condition, class ids as int64, if the objective accepts their value type.

    Raises:
        TypeError: For values of another type, and for what is no tensor.
    """
    if not isinstance(z, Tensor):
        raise TypeError(f"{key} must be a tensor, not {type(z).__name__}")
    z = long_ids(z)
    if value_type_of(z) not in accepted:
        raise TypeError(
            f"{name} needs a {' or '.join(accepted)} condition, but {key} is {value_type_of(z)}"
            f" ({z.dtype}, {tuple(z.shape)})"
        )
    return z


def long_ids(z: Tensor) -> Tensor:
    """Class ids as int64, in which a byte that holds -1 would be 255; other values as they are."""
    # 2^63 and more become negative.
    wide = z.dtype in UNSIGNED or (z.ndim == 1 and not z.dtype.is_floating_point)
    return z.long() if wide else z


def ask_of_values(key: str, z: Tensor, questions: Questions, ignore: bool) -> None:
    """Ask whether the values of a condition are finite, or its class ids 0 or more.

    Args:
        key: The condition's name.
        z: Its values.
        questions: Gets the question.
        ignore: Whether values may be missing: NaN, or -1 among class ids.
    """
    if z.dtype.is_floating_point:
        known = z.nan_to_num(0.0, math.inf, -math.inf) if ignore else z
        questions.ask(known.sum(), partial(_refuse_non_finite, key, z, ignore))
    elif z.dtype not in (torch.bool, torch.uint8):
        lowest = -1 if ignore else 0
        # The root of a negative number is NaN.
        questions.ask((z.amin() - lowest).sqrt(), partial(_refuse_below, key, z, lowest))


def all_finite(x: Tensor) -> bool:
    """Whether no entry is NaN or inf; this waits for the device."""
    x = x.detach()
    return math.isfinite(x.sum()) or bool(x.isfinite().all())  # a sum of large numbers may be inf


def _refuse_non_finite(what: str, x: Tensor, ignore: bool = False) -> None:
    entries = x.detach().reshape(len(x), -1)
    wrong = entries.isinf() if ignore else ~entries.isfinite()
    _refuse_rows(f"{what} holds {'inf' if ignore else 'NaN or inf'}", wrong)


def _refuse_below(what: str, z: Tensor, lowest: int) -> None:
    way_out = (
        '; ids begin at 0, and -1 means a missing value: missing="ignore" leaves such samples out'
    )
    below = z.reshape(len(z), -1) < lowest
    _refuse_rows(f"{what} holds class ids below {lowest}", below, way_out)


def _refuse_rows(what: str, entries: Tensor, way_out: str = "") -> None:
    """Raise an error that lists the rows of (b, ·) that hold a True; this waits for the device."""
    if (wrong := entries.any(1)).any():
        raise ValueError(f"{what} in {count(wrong, 'rows')}{way_out}")


def count(flags: Tensor, what: str) -> str:
    """How many of the entries (b,) are True, and the numbers of the first eight, for messages."""
    numbers = flags.nonzero().flatten().tolist()
    more = "..." if len(numbers) > 8 else ""
    return f"{len(numbers)} of {len(flags)} {what}: {numbers[:8]}{more}"


def _list(wanted: Wanted) -> str:
    return "; ".join(f"{key}: {' or '.join(value_types)}" for key, value_types in wanted.items())

"""Raw embeddings and conditions as a user hands them to an objective, checked where they enter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.protocols import Kernel, Measure

if TYPE_CHECKING:
    from ccl_plugins.objectives.base import ContrastiveObjective, Exclude


def read_views(objective: ContrastiveObjective, views: tuple[Tensor, ...]) -> Tensor:
    """Two or more (b, d) embeddings as one (u, b, d)."""
    name = type(objective).__name__
    if len(views) < objective.min_views:
        raise ValueError(f"{name} needs at least {objective.min_views} views, not {len(views)}")
    shapes = [tuple(v.shape) for v in views]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        raise ValueError(f"the views must be (b, d) embeddings of one shape, not {shapes}")
    if others := [view.dtype for view in views if not view.is_floating_point()]:
        raise TypeError(f"the views must be embeddings of floats, not {others[0]}")
    if shapes[0][0] < 2 <= objective.min_views:  # with a single view nothing is compared
        raise ValueError(f"{name} compares samples: a batch needs at least 2, not {shapes[0][0]}")
    for number, view in enumerate(views):
        _refuse_non_finite(f"view {number}", view)
    return torch.stack(views)


def read_condition(
    objective: ContrastiveObjective,
    condition: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None,
    views: Tensor,
) -> dict[str, Tensor]:
    """What was given as ``condition``, by the names that the objective reads."""
    name, wanted = type(objective).__name__, objective.conditions
    if condition is None:
        if wanted:
            raise TypeError(
                f"{name} needs a condition ({_accepted(wanted)}): call it with condition=..."
            )
        return {}
    if not wanted:
        raise TypeError(f"{name} reads no condition, but condition= was given")
    named: Mapping[str, object] = condition if isinstance(condition, Mapping) else {}
    if not isinstance(condition, Mapping):
        if len(wanted) > 1:
            raise TypeError(
                f"{name} reads several conditions ({_accepted(wanted)}): give them by name,"
                " condition={...}"
            )
        named = {next(iter(wanted)): condition}
    if missing := [key for key in wanted if key not in named]:
        raise TypeError(f"{name} reads the condition {missing[0]!r}, but got {sorted(named)}")
    if unread := [key for key in named if key not in wanted]:
        raise TypeError(f"{name} reads {_accepted(wanted)}, and not the condition {unread[0]!r}")
    return {key: _values(name, key, named[key], wanted[key], views) for key in wanted}


def read_exclude(exclude: Exclude) -> tuple[Kernel, Scalar, str]:
    """Kernel, threshold and condition name of what was given as ``exclude``."""
    match exclude:
        case (kernel, int() | float() | Mapping() as threshold) if callable(kernel):
            return kernel, threshold, "condition"
        case (kernel, int() | float() | Mapping() as threshold, str() as on) if callable(kernel):
            return kernel, threshold, on
    raise TypeError(
        "exclude must be (kernel, threshold) or (kernel, threshold, name of a condition),"
        f" not {exclude!r}"
    )


def _values(name: str, key: str, z: object, accepted: object, views: Tensor) -> Tensor:
    if isinstance(z, tuple | list):
        if len(z) != len(views):
            raise ValueError(
                f"{key} has {len(z)} tensors for {len(views)} views: give one per view"
            )
        parts = [_values(name, key, part, accepted, views) for part in z]
        if parts[0].ndim != 2:
            raise ValueError(f"{key} given per view must be (b, c), not {tuple(parts[0].shape)}")
        return torch.stack(parts)
    if not isinstance(z, Tensor):
        raise TypeError(f"{key} must be a tensor, not {type(z).__name__}")
    if z.ndim not in (1, 2) or z.shape[0] != views.shape[1]:
        raise ValueError(
            f"{key} must have one row per sample, (b,) or (b, c) with b = {views.shape[1]},"
            f" not {tuple(z.shape)}"
        )
    if measure_of(z) not in accepted:  # type: ignore[operator]  # a sequence of measures
        raise TypeError(
            f"{name} needs a {_or(accepted)} condition, but {key} is {measure_of(z)}"
            f" ({z.dtype}, {tuple(z.shape)})"
        )
    _refuse_missing(key, z)
    return z


def measure_of(z: Tensor) -> Measure:
    """What a tensor without a name holds: integers in one dimension are class ids.

    Bool and uint8 columns are 0/1 attributes; floats are continuous, which every objective that takes
    attributes takes too.
    """
    if z.dtype.is_floating_point:
        return "continuous"
    return "multi_label" if z.ndim == 2 and z.dtype in (torch.bool, torch.uint8) else "categorical"


def _refuse_missing(key: str, z: Tensor) -> None:
    if z.dtype.is_floating_point:
        _refuse_non_finite(key, z)
    elif not torch.compiler.is_compiling():
        way_out = "; ids begin at 0, and -1 is a missing one: leave these samples out"
        _refuse_rows(f"{key} holds class ids below 0", z.reshape(len(z), -1) < 0, way_out)


def _refuse_non_finite(what: str, x: Tensor) -> None:
    if not torch.compiler.is_compiling():
        _refuse_rows(f"{what} holds NaN or inf", ~x.detach().isfinite().reshape(len(x), -1))


def _refuse_rows(what: str, entries: Tensor, way_out: str = "") -> None:
    """An error that numbers the rows of (b, ·) in which an entry is True; it waits for the device."""
    found = entries.any(1)
    if found.any():
        rows = found.nonzero().flatten().tolist()
        raise ValueError(
            f"{what} in {len(rows)} of {len(found)} rows: {rows[:8]}"
            f"{'...' if len(rows) > 8 else ''}{way_out}"
        )


def _accepted(wanted: Mapping[str, object]) -> str:
    return "; ".join(f"{key}: {_or(measures)}" for key, measures in wanted.items())


def _or(measures: object) -> str:
    return " or ".join(measures)  # type: ignore[arg-type]  # a sequence of measures

"""A variable: the values of a column or a condition, checked against their type, and missing values.

A value is missing if it is NaN, and among class ids and 0/1 columns if it is -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast, get_args

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.files.arrays import as_float32, real
from ccl_plugins.files.mapped import blocks
from ccl_plugins.protocols import VALUE_TYPES, Missing, ValueType


def check_policy(missing: str, value_type: ValueType | None = None) -> Missing:
    """``missing``, if it is a policy for missing values that suits the value type.

    Args:
        missing: The policy.
        value_type: The condition's; None if it is not known yet.

    Raises:
        ValueError: For another word, and for ``"own"`` without class ids.
    """
    one_of("missing", missing, get_args(Missing))
    if missing == "own" and value_type not in (None, "categorical"):
        raise ValueError(
            f"missing='own' gives a sample a class of its own, but the condition is {value_type}:"
            " missing='ignore' leaves such samples out of the objectives that read it"
        )
    return cast("Missing", missing)


@dataclass(frozen=True, eq=False)
class Variable:
    """The samples' values of a metadata column or of a condition.

    Args:
        values: (N,) or (N, c); -1 among class ids and NaN among numbers where a sample has none.
        value_type: What the values are.
        words: The word of each class id; empty: ids have no words.
        complete: Whether a check found a value for each sample.
    """

    values: Tensor
    value_type: ValueType
    words: Sequence[str] = ()
    complete: bool = field(default=False, kw_only=True)

    @property
    def missing_entries(self) -> Tensor:
        """True where a value is missing; the shape of ``values``."""
        return _missing(self.values, self.value_type)

    @cached_property
    def missing(self) -> Tensor:
        """(N,) True at the samples that lack a value."""
        if self.complete:
            return torch.zeros(len(self.values), dtype=torch.bool)
        parts = (self.values[rows] for rows in blocks(self.values))
        return torch.cat([_any_entry(_missing(part, self.value_type)) for part in parts])

    @cached_property
    def has_gaps(self) -> bool:
        """Whether some sample lacks a value."""
        return bool(self.missing.any())

    @property
    def present(self) -> Tensor:
        """(k,) or (k, c) the values of the samples with a value."""
        return self.values[~self.missing]

    def as_numbers(self) -> Tensor:
        """The values as floats, with NaN where one is missing."""
        values = self.values if self.values.is_floating_point() else self.values.float()
        if self.value_type == "continuous":
            return values
        return values.masked_fill(self.missing_entries, torch.nan)


def _missing(values: Tensor, value_type: ValueType) -> Tensor:
    nan = values.isnan()
    return nan if value_type == "continuous" else nan | (values == -1)


def check_values(
    name: str, values: Tensor, value_type: ValueType, size: int, missing: Missing = "error"
) -> tuple[Tensor, int]:
    """A condition's values, checked, and the number without one; class ids as long, others as float32.

    Args:
        name: The condition's name, for errors.
        values: (N,) or (N, c).
        value_type: ``"categorical"`` class ids, 0 or more; ``"multi_label"`` 0/1 columns;
            ``"continuous"`` finite numbers.
        size: N.
        missing: ``"error"`` refuses missing values; ``"own"`` makes each a class of its own; ``"ignore"``
            and ``"drop"`` keep them as -1 or NaN, and objectives or training leave their samples out.

    Raises:
        TypeError: If the values are not a tensor.
        ValueError: For another number of rows, for missing values under ``"error"``, and for values
            that the value type does not allow; the message names the first rows.
    """
    place = f"condition {name!r}"
    if not isinstance(values, Tensor):
        several = (
            ": declare value_type as a mapping with the same names, as"
            f" {{{', '.join(f'{key!r}: {value_type!r}' for key in [*values][:2])}}}"
            if isinstance(values, Mapping)
            else ""
        )
        raise TypeError(f"{place} must be a tensor, not {type(values).__name__}{several}")
    if values.ndim not in (1, 2) or len(values) != size:
        raise ValueError(
            f"{place} has shape {tuple(values.shape)}, but the data set has {size} samples:"
            f" ({size},) or ({size}, c) is right"
        )
    one_of(f"the value_type of {place}", value_type, VALUE_TYPES)
    check_policy(missing, value_type)
    values = real(values.detach(), place)
    lost = int(Variable(values, value_type).missing.sum())
    if size and lost == size:
        raise ValueError(
            f"{place} has no value in any of its {size} rows: choose another column, or leave out "
            "the part that reads it"
        )
    # Own classes of missing values depend on all rows.
    if values.ndim == 1 or value_type == "categorical":
        return _checked(place, values, value_type, missing), lost
    all_checked = values
    for rows in blocks(values):
        part = values[rows]
        where = (
            place if len(part) == size else f"{place}, of the rows {rows.start} to {rows.stop - 1},"
        )
        checked = _checked(where, part, value_type, missing, rows.start)
        if all_checked is values and checked.data_ptr() != part.data_ptr():
            all_checked = values.new_empty(values.shape, dtype=checked.dtype)
            all_checked[: rows.start] = values[: rows.start]
        if all_checked is not values:
            all_checked[rows] = checked
    return all_checked, lost


def _checked(
    place: str, values: Tensor, value_type: ValueType, missing: Missing, first: int = 0
) -> Tensor:
    """Some rows of a condition's values, from row ``first`` on, checked like in `check_values`."""
    if value_type == "continuous" and values.dtype == torch.float32 and values.isfinite().all():
        return values
    lost = _missing(values, value_type)
    if missing == "error":
        remedy = (
            "give these samples a value, or the condition missing='ignore' (left out of the objectives"
            " that read it) or 'drop' (left out of training)"
        )
        if value_type == "categorical":
            remedy += " or 'own' (positive with their own views only)"
        nan = lost & values.isnan()
        refuse_rows(place, values, nan, "missing (NaN)", remedy, first)
        refuse_rows(place, values, lost, "missing (-1)", remedy, first)
    if value_type == "continuous":
        remedy = "continuous values must be finite"
        refuse_rows(place, values, values.isinf(), "infinite", remedy, first)
    elif value_type == "categorical":
        negative = (values < 0) & ~lost
        refuse_rows(place, values, negative, "negative", "class ids are 0 or more")
    typed = as_value_type(place, values, value_type, lost, first)
    return _own_classes(typed, lost) if missing == "own" else typed


def as_value_type(
    place: str, values: Tensor, value_type: ValueType, missing: Tensor, first: int = 0
) -> Tensor:
    """Class ids as long, -1 where missing; other values as float32, NaN where missing.

    Args:
        place: The holder of the values, for errors.
        values: (N,) or (N, c).
        value_type: The values' type.
        missing: The same shape, bool.
        first: The number of the first row, for errors.

    Raises:
        ValueError: For class ids that are not whole, 0/1 columns with other values, and numbers that
            float32 cannot hold.
    """
    if value_type == "continuous":
        floats = as_float32(values, place, "subtract the least number from all")
        if values.dtype == torch.float64:
            large = floats.isinf() & values.isfinite()
            refuse_rows(
                place, values, large, "too large", "float32 holds numbers below 3.4e38", first
            )
        return floats
    if value_type == "multi_label":
        other = (values != 0) & (values != 1) & ~missing
        refuse_rows(place, values, other, "other", "multi_label values are 0 or 1", first)
        return values.float().masked_fill(missing, torch.nan) if missing.any() else values.float()
    if values.is_floating_point():
        exact = 2 / torch.finfo(values.dtype).eps
        large = (values.abs() >= exact) & ~missing
        remedy = (
            f"{values.dtype} holds only whole numbers below {exact:.0f} exactly; give whole numbers"
        )
        refuse_rows(place, values, large, "inexact", remedy)
        fractional = (values != values.round()) & ~missing
        refuse_rows(place, values, fractional, "fractional", "class ids are whole numbers")
    return values.masked_fill(missing, -1).long()


def refuse_rows(
    place: str, values: Tensor, bad: Tensor, what: str, remedy: str, first: int = 0
) -> None:
    """Raise a ValueError that names the first rows with a bad entry, if there are any.

    Args:
        place: The holder of the values.
        values: (N,) or (N, c).
        bad: The same shape, bool.
        what: The adjective of the bad values.
        remedy: The right values.
        first: The number of the first row.
    """
    rows = (_any_entry(bad).nonzero().flatten() + first).tolist()
    if rows:
        listed = ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
        raise ValueError(
            f"{place} has {what} values in {len(rows)} of {len(values)} rows ({listed}; from 0), such as"
            f" {values[bad][0].item()!r}: {remedy}"
        )


def _own_classes(ids: Tensor, missing: Tensor) -> Tensor:
    """Class ids (N,) or (N, L), where each missing id becomes a class of one sample."""
    new = ids.masked_fill(missing, -1).amax(0) + missing.long().cumsum(0)
    return torch.where(missing, new, ids)


def _any_entry(entries: Tensor) -> Tensor:
    """(N,) True at the rows of a bool tensor with a True entry."""
    return entries if entries.ndim == 1 else entries.any(1)

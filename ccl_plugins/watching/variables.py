"""What probes read from features: the label, columns, and every condition that has a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.metadata.columns import tensor_columns
from ccl_plugins.metadata.values import missing_rows
from ccl_plugins.protocols import ValueType
from ccl_plugins.training.tables import Tables

MOST_CLASSES = 4096
"""More classes are not predicted: their probe would be larger than the network."""

LABEL = "label"


@dataclass(frozen=True, eq=False)
class Variable:
    """One column of class ids, or all columns of a variable of numbers, as a probe predicts them.

    Args:
        name: The name under which it is logged; levels of one hierarchy share it.
        has_gaps: Whether samples lack a value.
        level: Of a hierarchy; None if there is one column of class ids, or numbers.
        classes: (C,) the class ids that occur, in rising order; None for numbers.
        center: (c,) the mean of each column of numbers; None for class ids.
        scale: (c,) their deviations, 1 where a column is constant; None for class ids.
    """

    name: str
    has_gaps: bool
    level: int | None = None
    classes: Tensor | None = None
    center: Tensor | None = None
    scale: Tensor | None = None

    @property
    def width(self) -> int:
        """Columns of its targets."""
        found = self.center if self.classes is None else self.classes
        assert found is not None
        return len(found)

    def ids(self, values: Tensor) -> Tensor:
        """(n,) places among ``classes`` of values (n,) or (n, L); -1 where there is none."""
        assert self.classes is not None
        given = values if self.level is None else values[:, self.level]
        places = torch.searchsorted(self.classes, given.contiguous())
        places = places.clamp_max(len(self.classes) - 1)
        return torch.where(self.classes[places] == given, places, -1)

    def numbers(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """(n, c) values (n,) or (n, c) in deviations from the mean; NaN where there is none."""
        assert self.center is not None
        assert self.scale is not None
        columns = values.to(dtype).reshape(len(values), -1)
        return (columns - self.center.to(dtype)) / self.scale.to(dtype)

    def targets(self, values: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """(n, width) what a linear probe is fitted to, 0 without a value; (n,) whether there is one."""
        if self.classes is not None:
            ids = self.ids(values)
            places = torch.arange(self.width, device=ids.device)
            return (ids[:, None] == places).to(dtype), ids >= 0
        numbers = self.numbers(values, dtype)
        return numbers.nan_to_num(), ~numbers.isnan().any(1)


class Readings:
    """The values of label, columns and conditions with a table, and what of them can be predicted.

    No probe is made of class ids of which more than half of the samples have one of their own, as instance
    ids, of more than 4096 classes, nor of numbers that are constant: it would say nothing.

    Args:
        tables: The run's, fitted.
        split: The training split.
        value_types: Of its columns.
        device: Where batches are.
        columns: Names of metadata columns beside the label; of a condition's name, the condition is read.
    """

    def __init__(
        self,
        tables: Tables,
        split: Any,
        value_types: Mapping[str, ValueType],
        device: torch.device,
        columns: Iterable[str] = (),
    ) -> None:
        self.tables, self.device = tables, device
        self.label: Tensor | None = None
        """(N,) class ids, on the CPU; None if labels are something else, or there are none."""
        self._columns: dict[str, Tensor] = {}
        self._known: list[Variable] = []
        for name in dict.fromkeys([LABEL, *columns]):
            if name not in split.metadata or (name in tables and name != LABEL):
                continue
            values = tensor_columns({name: split.metadata[name]})[name]
            numbers = values.is_floating_point()
            value_type = value_types.get(name, "continuous" if numbers else "categorical")
            if numbers and value_type == "categorical":  # with NaN for missing ids
                values = values.nan_to_num(-1).long()
            if name == LABEL and value_type == "categorical" and values.ndim == 1:
                self.label = values
            self._columns[name] = values.to(device)
            self._known += _variables(name, value_type, values, device)
        self._of: dict[str, tuple[Tensor, list[Variable]]] = {}

    def variables(self) -> list[Variable]:
        """The variables that a probe can predict, of the tables as they are now."""
        found = list(self._known)
        for name in self.tables:
            if name == LABEL:
                continue  # the column of that name is measured
            values, value_type = self.tables[name].values, self.tables.conditions[name].value_type
            if name not in self._of or self._of[name][0] is not values:
                self._of[name] = values, [*_variables(name, value_type, values, self.device)]
            found += self._of[name][1]
        return found

    def look_up(self, index: Tensor) -> dict[str, Tensor]:
        """The values of dataset indices (n,) by name, on their device."""
        columns = {name: values[index] for name, values in self._columns.items()}
        return {**self.tables.look_up(index), **columns}

    def labels(self, index: Tensor) -> Tensor:
        """(n,) the class ids of dataset indices (n,); the split has some."""
        return self._columns[LABEL][index]


def _variables(
    name: str, value_type: ValueType, values: Tensor, device: torch.device
) -> Iterator[Variable]:
    lost = missing_rows(values, value_type)
    known = values[~lost]
    made = Variable(name, bool(lost.any()))
    if value_type == "categorical":
        for level, column in enumerate([known] if values.ndim == 1 else list(known.T)):
            classes = column.unique()
            if 2 <= len(classes) <= min(MOST_CLASSES, len(column) // 2):
                place = None if values.ndim == 1 else level
                yield replace(made, level=place, classes=classes.to(device))
        return
    numbers = known.reshape(len(known), -1).double()
    if len(numbers) < 2 or not bool(numbers.isfinite().all()):
        return
    center, deviation = numbers.mean(0), numbers.std(0, correction=0)
    varies = deviation > 1e-9 * center.abs()
    if varies.any():
        scale = torch.where(varies, deviation, 1.0)
        yield replace(made, center=_near(center, device), scale=_near(scale, device))


def exact_type(device: torch.device) -> torch.dtype:
    """float64 where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def _near(x: Tensor, device: torch.device) -> Tensor:
    return x.to(exact_type(device)).to(device)

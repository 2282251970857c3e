"""The columns that evaluators read while a run trains: the label, metadata, and conditions with a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.evaluators import (
    KNN,
    Alignment,
    ConditionalEntropy,
    Held,
    LinearProbe,
    RankMe,
    Regression,
    Uniformity,
)
from ccl_plugins.files.mapped import BLOCK, rows
from ccl_plugins.metadata.columns import variable_of
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import Evaluator, ValueType, trait
from ccl_plugins.training.tables import Tables

LABEL = "label"

JUDGED = 1 << 16
"""The number of samples by which a large column is judged."""

MOST_CLASSES = 4096
"""Columns with more classes are not predicted, because the classifier would be larger than the network."""


class Columns:
    """The values of samples by column: of metadata, or of the table of a condition of that name.

    A condition that gives the values of a metadata column is read as that column; each level of a
    hierarchy is a column, such as ``"wordnet[0]"``. Some columns are left out, because measuring
    them is meaningless: class ids that are unique for more than half of the samples (such as
    instance ids), more than 4096 classes, and numbers that are constant or infinite.

    Args:
        tables: The run's fitted tables.
        split: The training split.
        value_types: The value types of its metadata.
        columns: Names of metadata columns in addition to the label and the conditions.
    """

    def __init__(
        self,
        tables: Tables,
        split: Any,
        value_types: Mapping[str, ValueType],
        columns: Iterable[str] = (),
    ) -> None:
        self.tables = tables
        read = {name: trait(tables.conditions[name], "column") for name in tables}
        asked = dict.fromkeys(columns)
        self._own = [
            name
            for name, column in read.items()
            if name != LABEL
            and (column not in split.metadata or (name in asked and name != column))
        ]
        wanted = dict.fromkeys([LABEL, *asked, *(column for column in read.values() if column)])
        named = [n for n in wanted if n in split.metadata and n not in self._own]
        self._metadata: dict[str, Variable] = {}
        for name in named:
            column = variable_of(split, name, value_types.get(name))
            if column.values.is_floating_point() and column.value_type == "categorical":
                column = replace(column, values=column.values.nan_to_num(-1).long())
            self._metadata[name] = column
        self._checked: dict[str, tuple[Variable, dict[str, Tensor]]] = {}
        self._apart: dict[str, tuple[Tensor, bool]] = {}

    @property
    def label(self) -> Tensor | None:
        """(N,) class ids; None if labels are not class ids, or there are none."""
        label = self._metadata.get(LABEL)
        ids = label is not None and label.value_type == "categorical" and label.values.ndim == 1
        return label.values if label is not None and ids else None

    def measurable(self) -> dict[str, Tensor]:
        """The meaningful columns, from the present tables: (N,) class ids or (N, c) numbers."""
        tables = {name: self.tables.variables[name] for name in self._own}
        measurable: dict[str, Tensor] = {}
        for name, variable in {**self._metadata, **tables}.items():
            if name not in self._checked or self._checked[name][0] is not variable:
                self._checked[name] = variable, dict(_columns(name, variable))
            measurable |= self._checked[name][1]
        return measurable

    def evaluators(self, fitted: Tensor, held: Tensor) -> list[Evaluator]:
        """The default evaluators, for the meaningful columns, projections and features.

        A column whose classes are only on one side, such as groups, is read by `Held`.

        Args:
            fitted: (k,) the samples that evaluators may be fitted to.
            held: (m,) those on which they may be measured.
        """
        probes: list[Evaluator] = []
        for name, values in self.measurable().items():
            if values.is_floating_point():
                probes.append(Regression(name, reg="gcv", eight_bit=False))
            elif self._is_apart(name, values, fitted, held):
                probes.append(Held(name, probe="least_squares"))
            else:
                probes += [LinearProbe(column=name, solver="least_squares"), KNN(column=name)]
        return [
            *probes,
            RankMe(),
            RankMe("features"),
            Alignment(),
            Uniformity(samples=512),
            ConditionalEntropy(),
        ]

    def _is_apart(self, name: str, ids: Tensor, fitted: Tensor, held: Tensor) -> bool:
        """Whether the held-out samples share no class with the others."""
        if name not in self._apart or self._apart[name][0] is not ids:
            fitted_ids, seen = (rows(ids, side).long() for side in (fitted, held))
            seen = seen[seen >= 0]
            self._apart[name] = ids, len(seen) > 0 and not bool(torch.isin(seen, fitted_ids).any())
        return self._apart[name][1]


def _columns(name: str, variable: Variable) -> Iterator[tuple[str, Tensor]]:
    """The meaningful columns of a variable; a large one is judged by evenly spaced samples."""
    values, judged = variable.values, variable
    if values.nbytes > BLOCK:
        some = torch.linspace(0, len(values) - 1, JUDGED, dtype=torch.float64).long()
        judged = Variable(rows(values, some), variable.value_type)
    present = judged.present
    if variable.value_type == "categorical":
        levels = zip(
            values.unsqueeze(-1).flatten(1).T, present.unsqueeze(-1).flatten(1).T, strict=True
        )
        for level, (ids, given) in enumerate(levels):
            if 2 <= len(given.unique()) <= min(MOST_CLASSES, len(given) // 2):
                yield name if values.ndim == 1 else f"{name}[{level}]", ids
        return
    numbers = present.reshape(len(present), -1).double()
    if len(numbers) < 2 or not bool(numbers.isfinite().all()):
        return
    varies = numbers.std(0, correction=0) > 1e-9 * numbers.mean(0).abs()
    if varies.any():
        flat = values.reshape(len(values), -1)
        flat = (flat if varies.all() else flat[:, varies]).to(torch.get_default_dtype())
        yield name, Variable(flat, variable.value_type).as_numbers()

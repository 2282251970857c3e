"""The data of runs that figures read: samples, features, variables, and the kernels that read variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

import ccl_registry as engine
from ccl_plugins.conditions.column import Column
from ccl_plugins.files.mapped import blocks
from ccl_plugins.metadata.columns import variable_of
from ccl_plugins.metadata.fitted import variables
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import DoesNotApply
from ccl_plugins.training.kernel_check import KernelReading, kernel_readings

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run

T = TypeVar("T")

SPLITS = {"train": 0, "test": 1}
"""The place of each split in ``Run.splits``."""

LARGE = 20000
"""For larger splits, only the features that are drawn are computed, unless all are stored."""

NUMBERS = 1 << 20
"""The count of numbers of a variable that are read at a time."""


@dataclass(frozen=True, eq=False)
class Values(Variable):
    """A variable of a split, by which its samples are drawn; ids without words are shown themselves.

    Args:
        name: The metadata column or condition.
    """

    name: str = field(default="", kw_only=True)

    @cached_property
    def are_colors(self) -> bool:
        """Whether the values are colors: three numbers from 0 to 1."""
        values = self.values
        if self.value_type != "continuous" or values.ndim != 2 or values.shape[1] != 3:
            return False
        known = self.present
        return bool(len(known) and known.min() >= 0 and known.max() <= 1)

    def colors(self, rows: Tensor) -> Tensor:
        """(k, 3) the colors of some samples; gray where one is missing."""
        return self.values[rows].nan_to_num(0.5)

    @property
    def is_told_apart(self) -> bool:
        """Whether colors can show the variable: at most half of the samples have a class of their own."""
        ids = self.ids
        return ids is None or 2 * len(ids.unique()) <= len(ids)

    @property
    def ids(self) -> Tensor | None:
        """(N,) class ids, of a hierarchy those of its first level; None for numbers."""
        if self.value_type != "categorical":
            return None
        return self.values.long() if self.values.ndim == 1 else self.values[:, 0].long()

    def word(self, number: int) -> str:
        """The name of a class."""
        return str(self.words[number]) if 0 <= number < len(self.words) else str(number)

    def text(self, row: int) -> str:
        """A sample's value as text: the name of its class, or "none", or its numbers."""
        if self.ids is None:
            return ", ".join(f"{value:.4g}" for value in self.values[row].flatten().tolist())
        number = int(self.ids[row])
        return "none" if number < 0 else self.word(number)

    def line(self, rows: Tensor) -> Tensor:
        """(k,) one number for each of some samples: the value, or the first principal component of all."""
        numbers = self._numbers(self.values[rows])
        if numbers.shape[1] == 1:
            return numbers[:, 0]
        mean, direction = self._principal_component
        line = (numbers - mean).nan_to_num(0) @ direction
        return line.masked_fill(numbers.isnan().any(1), torch.nan)

    @cached_property
    def _principal_component(self) -> tuple[Tensor, Tensor]:
        """(c,) the mean of all samples, and the direction in which they vary most."""
        width = self.values[:1].numel()
        total, count = torch.zeros(2, width, dtype=torch.float64)
        for numbers in self._parts():
            total += numbers.nansum(0)
            count += (~numbers.isnan()).sum(0)
        mean = total / count
        squares = torch.zeros(width, width, dtype=torch.float64)
        for numbers in self._parts():
            centered = (numbers - mean).nan_to_num(0)
            squares += centered.T @ centered
        direction = torch.linalg.eigh(squares).eigenvectors[:, -1]
        # An eigenvector has no sign: the largest entry is made positive.
        return mean, direction * direction[direction.abs().argmax()].sign()

    def _parts(self) -> Iterator[Tensor]:
        """The numbers of all samples, in blocks, because a large table does not fit into memory."""
        for block in blocks(self.values):
            values = self.values[block]
            for part in values.split(max(1, NUMBERS // max(1, values[:1].numel()))):
                yield self._numbers(part)

    def _numbers(self, values: Tensor) -> Tensor:
        """(k, c) float64, with NaN where a value is missing."""
        lost = replace(self, values=values).missing_entries
        return values.double().masked_fill(lost, torch.nan).reshape(len(values), -1)


def known_variables(run: Run) -> dict[str, str]:
    """The label and the run's conditions that have a table: the name in figures, the name in the run.

    A condition that is a metadata column gets the column's name, which other runs share; a
    condition called "condition" gets the name of its component.
    """
    names = {"label": "label"} if "label" in run.dataset.schema() else {}
    for name, condition in conditions_of(run).items():
        if condition.refresh != "batch":
            shown = metadata_column_of(condition) or name
            if shown == "condition":
                shown = run.recorded.conditions[name].spec.name
            names.setdefault(shown, name)
    return names


def conditions_of(run: Run) -> dict[str, Any]:
    """The run's conditions, those of several variables by variable."""
    return variables(run.recorded.built_conditions)


def metadata_column_of(condition: Any) -> str | None:
    """The metadata column that a condition is, value for value; None for other conditions."""
    if isinstance(condition, Column) and not condition.standardize:
        return condition.name
    return None


def variable(run: Run, name: str, split: str = "train") -> Values:
    """A metadata column or a condition of a run, for all samples of a split.

    Raises:
        DoesNotApply: If the run has neither, or the condition is not known of this split's samples.
    """
    schema, conditions = run.dataset.schema(), conditions_of(run)
    if name in conditions:
        condition = conditions[name]
        of = metadata_column_of(condition)
        if of is None:
            if split != "train":
                raise DoesNotApply(f"condition {name!r} is known only for training samples")
            if condition.refresh == "batch":
                raise DoesNotApply(f"condition {name!r} is computed in every step and has no table")
            values = run.condition_tables()[name].values
            return Values(values, condition.value_type, name=name)
        name = of
    if name not in schema:
        listed = ", ".join(map(repr, dict.fromkeys([*schema, *conditions])))
        raise DoesNotApply(f"{run.path} has no column and no condition {name!r}; it has {listed}")
    return column(run, name, split)


def column(run: Run, name: str, split: str) -> Values:
    """A metadata column of a run's data set, for all samples of a split."""
    given = variable_of(run.splits[SPLITS[split]], name, run.dataset.schema()[name])
    return Values(given.values, given.value_type, given.words, name=name)


def kernel_reading(run: Run, condition: str | None = None) -> KernelReading:
    """The first objective of a run that reads a condition with a table, or several, through a kernel.

    Raises:
        DoesNotApply: If there is none.
    """
    known = conditions_of(run)
    readers = [
        each
        for each in kernel_readings(run.parts.objective)
        if condition is None
        or any(condition in (name, metadata_column_of(known.get(name))) for name in each.names)
    ]
    if not readers:
        of = "a condition" if condition is None else f"condition {condition!r}"
        raise DoesNotApply(f"no objective of {run.path} reads {of} through a kernel")
    # If all values are computed in every step, the first reader says so when it is read.
    tables = (r for r in readers if all(known[name].refresh != "batch" for name in r.names))
    return next(tables, readers[0])


def variables_of(run: Run, reading: KernelReading) -> dict[str, Values]:
    """The values of the conditions that a kernel reads, by name."""
    return {name: variable(run, name) for name in reading.names}


def known_rows(variables: Collection[Values], most: int) -> Tensor:
    """The places of at most the given number of samples with a value of all variables.

    Raises:
        DoesNotApply: If all these samples have the same value.
    """
    named = " and ".join(repr(each.name) for each in variables)
    known = (~torch.stack([each.missing for each in variables]).any(0)).nonzero().flatten()
    rows = known[sampled(len(known), most)]
    if len(rows) < 3:
        raise DoesNotApply(f"condition {named} is known of {len(rows)} samples only")
    if all((each.values[rows] == each.values[rows[0]]).all() for each in variables):
        raise DoesNotApply(
            f"condition {named} has the same value in all of {len(rows)} samples, so no samples "
            "can be compared by it"
        )
    return rows


def same_data(runs: Mapping[str, Run]) -> None:
    """Refuse runs of different data sets, and no runs.

    Raises:
        DoesNotApply: For such runs; the message names two runs and their data sets.
    """
    if not runs:
        raise DoesNotApply("there are no runs to draw")
    (first, one), *others = runs.items()
    for title, run in others:
        if one.record.is_on_data_of(run.record):
            continue
        given = [engine.short_repr(each.record.get("dataset")) for each in (one, run)]
        shown = (
            f"{given[0]} and {given[1]}"
            if given[0] != given[1]
            else f"{given[0]}, whose data changed"
        )
        raise DoesNotApply(
            f"{first} and {title} were trained on different data sets, which one figure cannot"
            f" compare: {shown}"
        )


def of_applicable(runs: Mapping[str, Run], read: Callable[[Run], T]) -> dict[str, T]:
    """The result of ``read`` for each run, by title, without the runs for which it raises `DoesNotApply`.

    Raises:
        DoesNotApply: If ``read`` raises it for all runs; the message has every reason.
    """
    given, why = dict[str, T](), []
    for title, run in runs.items():
        try:
            given[title] = read(run)
        except DoesNotApply as error:
            why.append(str(error))
    if not given:
        raise DoesNotApply("; ".join(why))
    return given


def sampled(n: int, most: int) -> Tensor:
    """At most ``most`` of n places, drawn evenly and always the same, in rising order."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    return order[:most].sort().values


def features(run: Run, split: str, rows: Tensor) -> Tensor:
    """(n, f) features of some samples of a split; for a large split, only these are computed.

    Raises:
        DoesNotApply: If they are all equal, or not finite.
    """
    data = run.splits[SPLITS[split]]
    if len(data) > LARGE:
        vectors = run.encode([data[i][0] for i in rows.tolist()])
    else:
        vectors = run.features(split).features[rows]
    if not vectors.isfinite().all():
        raise DoesNotApply(f"the features of {run.path} are not finite")
    if len(vectors) < 3 or (vectors == vectors[0]).all():
        why = "there are fewer than 3 samples" if len(vectors) < 3 else "they have collapsed"
        raise DoesNotApply(f"the features of {run.path} cannot be drawn: {why}")
    return vectors

"""The fitting of conditions: their variables, the embeddings they read, and tables outside of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.files.fingerprints import of_split
from ccl_plugins.files.mapped import blocks
from ccl_plugins.files.tensors import read_header, read_tensors, write_tensors
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import (
    VALUE_TYPES,
    Embedded,
    Embedder,
    ReadsEmbeddings,
    Refresh,
    Table,
    ValueType,
    trait,
)
from ccl_plugins.protocols.traits import DEFAULTS

EXTRA = "extras/"
"""In a file, the prefix of the names of a table's extras."""

NUMBERS = 1 << 22
"""The number of distances that are computed at once, which fit into a processor's cache."""


def _of_variable(name: str) -> Any:
    """A trait that a condition declares once for all its variables, or as a mapping by their names."""

    def read(variable: VariableCondition) -> Any:
        declared = trait(variable.source, name)
        if isinstance(declared, Mapping):
            return declared.get(variable.key, DEFAULTS[name])
        return declared

    return property(read)


@dataclass(frozen=True, eq=False)
class VariableCondition:
    """One variable of a condition whose ``value_type`` is a mapping; itself a condition.

    Args:
        source: The condition.
        key: The variable's name in it.
        place: The condition's name in the pipeline.

    It has the condition's traits; traits that may differ between variables are its own.
    """

    source: Any
    key: str
    place: str

    column = _of_variable("column")
    hierarchy = _of_variable("hierarchy")
    missing = _of_variable("missing")
    within_batch = _of_variable("within_batch")

    @property
    def refresh(self) -> Refresh:
        """The condition's."""
        refresh: Refresh = self.source.refresh
        return refresh

    @property
    def value_type(self) -> ValueType:
        """The value type of the variable."""
        value_type: ValueType = self.source.value_type[self.key]
        return value_type

    @property
    def reads_embeddings(self) -> ReadsEmbeddings:
        """Whether the condition's ``fit`` calls ``embed()``, and the embeddings that this returns."""
        reads: ReadsEmbeddings = trait(self.source, "reads_embeddings")
        return reads

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor | Table:
        """The table of only this variable; the engine fits all variables of a condition at once."""
        before = None if previous is None else {self.key: previous}
        return by_name([self], self.source.fit(split, embed, before))[self.key]

    def __call__(self, embedded: Embedded) -> Tensor:
        """The values of only this variable of a condition with refresh ``"batch"``."""
        return by_name([self], self.source(embedded))[self.key]


def variables(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions by the names under which they are read.

    A condition ``clip`` that gives the variables ``scene`` and ``people`` is read as ``clip/scene`` and
    ``clip/people``; all others keep their names.

    Raises:
        ValueError: For a ``value_type`` that is neither a value type nor a mapping of names to these, and
            for two variables of one name.
    """
    named: dict[str, Any] = {}
    for name, condition in conditions.items():
        given = condition.value_type
        if not isinstance(given, Mapping):
            one_of(f"the value_type of condition {name!r}", given, VALUE_TYPES)
            parts = {name: condition}
        elif not given or not all(isinstance(key, str) and key for key in given):
            raise ValueError(
                f"the value_type of condition {name!r} must be a value type, or value types by the names"
                f" of its variables, not {given!r}"
            )
        else:
            for key, each in given.items():
                one_of(f"the value_type of {key!r} in condition {name!r}", each, VALUE_TYPES)
            parts = {f"{name}/{key}": VariableCondition(condition, key, name) for key in given}
        if twice := named.keys() & parts.keys():
            raise ValueError(f"two conditions are called {min(twice)!r}: rename one")
        named |= parts
    return named


def together(conditions: Mapping[str, Any]) -> list[list[str]]:
    """The conditions' names, in lists of those that one pass computes."""
    groups: dict[str, list[str]] = {}
    for name, condition in conditions.items():
        groups.setdefault(pipeline_name(name, condition), []).append(name)
    return list(groups.values())


def pipeline_name(name: str, condition: Any) -> str:
    """The name of the condition that a variable belongs to; of another condition, its own."""
    return condition.place if isinstance(condition, VariableCondition) else name


def source_of(condition: Any) -> Any:
    """The condition that computes a variable; of another condition, itself."""
    return condition.source if isinstance(condition, VariableCondition) else condition


def one_of_each(group: Sequence[Any], computed: Any) -> list[Any]:
    """The results of one pass for each name in a group of `together`; for one condition, ``computed``.

    Raises:
        TypeError: See `by_name`.
        ValueError: See `by_name`.
    """
    single = not isinstance(group[0], VariableCondition)
    return [computed] if single else [*by_name(group, computed).values()]


def by_name(wanted: Sequence[VariableCondition], computed: Any) -> dict[str, Any]:
    """The results of a condition of several variables, by variable.

    Raises:
        TypeError: If they are not a mapping.
        ValueError: For other names than those in ``value_type``.
    """
    source = wanted[0].source
    kind, declared = type(source).__name__, list(source.value_type)
    if not isinstance(computed, Mapping):
        raise TypeError(
            f"{kind} declares the variables {', '.join(map(repr, declared))} and must return a mapping of"
            f" these names, not {type(computed).__name__}"
        )
    if set(computed) != set(declared):
        raise ValueError(
            f"{kind} declares the variables {', '.join(map(repr, declared))} in value_type, but "
            f"returned {', '.join(map(repr, computed)) or 'none'}"
        )
    return {each.key: computed[each.key] for each in wanted}


class Embeddings:
    """A `ccl_plugins.protocols.Embedder` of one process.

    Args:
        embed: Returns the (N, d) embeddings.
    """

    def __init__(self, embed: Callable[[], Tensor]) -> None:
        self._embed = embed

    def __call__(self) -> Tensor:
        """All (N, d)."""
        return self._embed()

    def blocks(self) -> Iterator[Tensor]:
        """All, one after another in blocks of rows."""
        values = self()
        for rows in blocks(values):
            yield values[rows]

    def nearest(self, centroids: Tensor) -> Tensor:
        """(N,) the nearest of the points (k, d) to each."""
        return nearest(self(), centroids)


def nearest(x: Tensor, centroids: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """(n,) the centroid (k, d) that is nearest to each point (n, d), found on a device."""
    centroids = centroids.to(device)
    squares, turned = centroids.square().sum(1), -2 * centroids.T.contiguous()
    numbers = NUMBERS if torch.device(device).type == "cpu" else 16 * NUMBERS
    room = squares.new_empty(max(1, numbers // len(centroids)), len(centroids))
    indices = [torch.empty(0, dtype=torch.long, device=device)]
    for rows in blocks(x):
        for part in x[rows].split(len(room)):
            distances = torch.addmm(squares, part.to(device), turned, out=room[: len(part)])
            indices.append(distances.min(1).indices)  # faster than argmin
    return torch.cat(indices).cpu()


def fit(condition: Any, split: Any, embed: Callable[[], Tensor] | None = None) -> Table:
    """The table of a condition, fitted outside of training.

    Args:
        condition: A built condition, such as ``ccl.create("condition", "wordnet", level=5)``.
        split: A torch Dataset with ``metadata``, such as ``dataset("train")``.
        embed: Gives (N, d) embeddings, for a condition that calls it.

    Raises:
        ValueError: For a condition without a table, and for one that needs ``embed``.
    """
    name = type(condition).__name__

    def refuse() -> Tensor:
        raise ValueError(f"{name} asks for the model's embeddings: give embed=")

    if condition.refresh == "batch":
        raise ValueError(f"{name} is computed in every step of training and has no table")
    if isinstance(condition.value_type, Mapping):
        raise ValueError(
            f"{name} gives the variables {', '.join(condition.value_type)}: fit one of"
            " variables({'z': condition}), as 'z/" + next(iter(condition.value_type)) + "'"
        )
    with torch.no_grad():
        fitted = condition.fit(split, Embeddings(embed or refuse), None)
    return fitted if isinstance(fitted, Table) else Table(fitted)


@dataclass(frozen=True)
class TableSummary:
    """A summary of a table, which prints as one line.

    Args:
        value_type: The type of the values.
        shape: (N,) or (N, c).
        missing: The number of samples without a value.
        counts: For class ids, of each column the number of samples in each class that occurs, in the
            order of ids; for 0/1 columns, one tensor with the number of ones in each.
        extras: Shapes of the further tensors.
    """

    value_type: ValueType
    shape: tuple[int, ...]
    missing: int
    counts: tuple[Tensor, ...]
    extras: dict[str, tuple[int, ...]]

    def metrics(self) -> dict[str, float]:
        """Numbers by name: ``missing`` and, for class ids, ``values``, ``fewest`` and ``most``."""
        metrics: dict[str, float] = {"missing": self.missing}
        if self.value_type != "categorical":
            return metrics
        for level, counts in enumerate(self.counts):
            prefix = f"{level}/" if len(self.shape) > 1 else ""
            metrics[f"{prefix}values"] = len(counts)
            if len(counts):
                metrics[f"{prefix}fewest"] = float(counts.min())
                metrics[f"{prefix}most"] = float(counts.max())
        return metrics

    def __str__(self) -> str:
        parts = [f"{self.value_type} {self.shape}"]
        if self.value_type == "categorical":
            parts += [_spread(counts, "values", "samples each") for counts in self.counts]
        elif self.value_type == "multi_label":
            parts += [_spread(self.counts[0], "columns", "samples with 1 in each")]
        if self.missing:
            parts.append(f"missing in {self.missing} samples")
        parts += [f"{name} {shape}" for name, shape in self.extras.items() if shape]
        return "; ".join(parts)


def summarize(table: Table, value_type: ValueType, missing: int | None = None) -> TableSummary:
    """A table's shape, its values, and the number of samples with each.

    Args:
        table: A fitted table; missing values are -1 or NaN.
        value_type: The condition's.
        missing: The number of samples without a value; None: counted in the table.
    """
    values = table.values
    columns = values.T if values.ndim == 2 else [values]
    counts = []
    if value_type == "categorical":
        counts = [torch.unique(c[c >= 0], return_counts=True)[1] for c in columns]
    elif value_type == "multi_label":
        counts = [torch.stack([(c == 1).sum() for c in columns])]
    if missing is None:
        missing = int(Variable(values, value_type).missing.sum())
    extras = {name: tuple(value.shape) for name, value in table.extras.items()}
    return TableSummary(value_type, tuple(values.shape), missing, tuple(counts), extras)


def save_table(path: str | Path, table: Table, value_type: ValueType, split: Any = None) -> None:
    """Write a table to a safetensors file, which the condition ``saved`` reads.

    Args:
        path: The file.
        table: The table.
        value_type: The condition's.
        split: The split that it was fitted on; if given, the file is refused for other images.
    """
    metadata = {"value_type": value_type} | ({} if split is None else {"dataset": of_split(split)})
    extras = {EXTRA + name: value for name, value in table.extras.items()}
    write_tensors(Path(path).expanduser(), {"values": table.values, **extras}, metadata)


def load_table(path: str | Path) -> tuple[Table, ValueType]:
    """The table in a file of `save_table`, and its value type.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it is damaged.
        ValueError: If it does not hold a table.
    """
    value_type, _ = read_kind(path)
    tensors, _ = read_tensors(Path(path).expanduser())
    extras = {k.removeprefix(EXTRA): v for k, v in tensors.items() if k != "values"}
    return Table(tensors["values"], extras), value_type


def read_kind(path: str | Path) -> tuple[ValueType, tuple[int, ...]]:
    """The value type and shape of the table that `load_table` would read; its values are not read."""
    shapes, metadata = read_header(Path(path).expanduser())
    value_type: Any = metadata.get("value_type")
    if value_type is None or "values" not in shapes:
        raise ValueError(f"{path} holds no fitted condition")
    one_of(f"the value_type in {path}", value_type, VALUE_TYPES)
    return value_type, shapes["values"]


def _spread(counts: Tensor, what: str, each: str) -> str:
    if not len(counts):
        return f"0 {what}"
    low, high = int(counts.min()), int(counts.max())
    return f"{len(counts)} {what}, {low if low == high else f'{low} to {high}'} {each}"

"""Fitted conditions outside of training: fit a table, summarize it, keep it in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.files.fingerprints import of_split
from ccl_plugins.files.tensors import read_header, read_tensors, write_tensors
from ccl_plugins.metadata.embeddings import Embeddings
from ccl_plugins.metadata.values import missing_rows
from ccl_plugins.protocols import VALUE_TYPES, Table, ValueType

EXTRA = "extras/"
"""In a file, the prefix of the names of a table's extras."""


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
    """What a table holds; it prints as one line.

    Args:
        value_type: What the values are.
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
        """As numbers by name: ``missing`` and, for class ids, ``values``, ``fewest`` and ``most``."""
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
    """A table's shape, its values, and how many samples have each.

    Args:
        table: As fitted; missing values are -1 or NaN.
        value_type: The condition's.
        missing: The number of samples without a value; None: those of the table.
    """
    values = table.values
    columns = values.T if values.ndim == 2 else [values]
    counts = []
    if value_type == "categorical":
        counts = [torch.unique(c[c >= 0], return_counts=True)[1] for c in columns]
    elif value_type == "multi_label":
        counts = [torch.stack([(c == 1).sum() for c in columns])]
    if missing is None:
        missing = int(missing_rows(values, value_type).sum())
    extras = {name: tuple(value.shape) for name, value in table.extras.items()}
    return TableSummary(value_type, tuple(values.shape), missing, tuple(counts), extras)


def save(path: str | Path, table: Table, value_type: ValueType, split: Any = None) -> None:
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


def load(path: str | Path) -> tuple[Table, ValueType]:
    """The table in a file of `save`, and its value type.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it is damaged.
        ValueError: If it holds no table.
    """
    value_type, _ = read_kind(path)
    tensors, _ = read_tensors(Path(path).expanduser())
    extras = {k.removeprefix(EXTRA): v for k, v in tensors.items() if k != "values"}
    return Table(tensors["values"], extras), value_type


def read_kind(path: str | Path) -> tuple[ValueType, tuple[int, ...]]:
    """The value type and shape of the table that `load` would read; its values are not read."""
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

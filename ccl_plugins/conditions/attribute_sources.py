"""Where attributes are read: a table in a file, or an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins.conditions.arrays import read_array
from ccl_plugins.conditions.matching import match_rows, require_rows, sample_names
from ccl_plugins.tabular import read_table


def choose(columns: Mapping[str, Any], names: Sequence[str] | None, place: str) -> dict[str, Any]:
    """The columns of these names, in this order; None takes all.

    Raises:
        ValueError: For a column that is not there, with those that are.
    """
    for name in names or ():
        if name not in columns:
            there = [*columns][:8]
            more = ", ..." if len(columns) > len(there) else ""
            raise ValueError(f"{place} has no column {name!r}; it has {', '.join(there)}{more}")
    return {name: columns[name] for name in (columns if names is None else names)}


def from_file(file: Path, key: str | None, split: Any) -> dict[str, Any]:
    """The columns of a file, a row for each sample of a split.

    Args:
        file: ``.csv``, ``.parquet``, ``.npy`` or ``.safetensors``.
        key: The column that names the samples; None: row i is sample i.
        split: A torch Dataset with ``metadata``.

    Raises:
        ValueError: For a file that does not fit the split.
    """
    if file.suffix in (".npy", ".safetensors"):
        return from_array(read_array(file), split, str(file))
    table = read_table(file, words=[] if key is None else [key])
    if key is None:
        require_rows(max(map(len, table.values()), default=0), split, str(file))
        return table
    named = choose(table, [key], str(file))[key]
    rows = match_rows(named, sample_names(split, key), str(file), key)
    return {
        name: [cells[row] if row >= 0 else None for row in rows]
        for name, cells in table.items()
        if name != key
    }


def from_array(array: Tensor, split: Any, place: str) -> dict[str, Any]:
    """The columns of an array (N, A), called ``"0"``, ``"1"``, ...

    Raises:
        ValueError: For another shape.
    """
    if array.ndim != 2:
        raise ValueError(f"{place} must be (N, A), not of shape {tuple(array.shape)}")
    require_rows(len(array), split, place)
    return {str(i): column for i, column in enumerate(array.T)}

"""Rows of a file matched with the samples of a data set, by name or by order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.arrays import from_numpy
from ccl_plugins.files.fingerprints import of_split
from ccl_plugins.files.tables import choose, read_table, row_of
from ccl_plugins.files.tensors import read_header


def read_rows(
    file: str | Path, key: str | None, split: Any, words: Sequence[str] = ()
) -> dict[str, Any]:
    """The columns of a table with a row for each sample of a split; missing rows are None or NaN.

    Args:
        file: ``.csv`` or ``.parquet``.
        key: The column that names the samples, matched with the metadata column of the same name;
            None: row i belongs to sample i.
        split: A torch Dataset with ``metadata``.
        words: Columns whose cells are words, even if they look like numbers.

    Raises:
        ValueError: For a file that does not fit the split.
    """
    table = read_table(file, words=[*words] if key is None else [*words, key])
    if key is None:
        require_rows(max(map(len, table.values()), default=0), split, str(file))
        return table
    named = choose(table, [key], str(file)).pop(key)
    rows = match_rows(named, sample_names(split, key), str(file), key)
    return {name: _take(cells, rows) for name, cells in table.items() if name != key}


def match_rows(named: Sequence[Any], samples: Sequence[Any], file: str, key: str) -> list[int]:
    """The row of a file for each sample, found by name; -1 for samples without a row.

    Args:
        named: The name in each row.
        samples: (N,) the names of the data set's samples; None is no name.
        file: The file, for errors.
        key: The column of names.

    Raises:
        ValueError: For a name in two rows, a row without a name, and a file that names no sample of the
            data set.
    """
    rows: dict[str, int] = {}
    for row, name in enumerate(named):
        if name is None or str(name) == "":
            raise ValueError(f"{file}: {row_of(file, row)} names no sample in its column {key!r}")
        first = rows.setdefault(str(name), row)
        if first != row:
            raise ValueError(
                f"{file} names the sample {str(name)!r} in {row_of(file, first)} and {row_of(file, row)}"
                f" (column {key!r})"
            )
    matched = [-1 if name is None else rows.get(str(name), -1) for name in samples]
    if samples and max(matched) < 0:
        raise ValueError(
            f"{file} is of another data set: its column {key!r} names {next(iter(rows), None)!r} and"
            f" others, the data set's {str(samples[0])!r} and others, and no name is in both"
        )
    return matched


def sample_names(split: Any, column: str) -> list[Any]:
    """(N,) the original entries of a column: words in place of their ids, and texts.

    Raises:
        ValueError: For a column that the data set does not have.
    """
    columns = {**split.metadata, **getattr(split, "texts", {})}
    values = choose(columns, [column], "the data set")[column]
    entries: list[Any] = values.tolist() if isinstance(values, Tensor) else list(values)
    words = getattr(split, "vocabulary", {}).get(column)
    if words is None:
        return entries
    return [words[i] if i >= 0 else None for i in entries]


def require_rows(count: int, split: Any, file: str) -> None:
    """Refuse a file with more or fewer rows than the split has samples.

    Raises:
        ValueError: For such a file, with both numbers.
    """
    if count != len(split):
        raise ValueError(
            f"{file} has {count} rows, but the data set has {len(split)} samples: it is of another "
            "data set or split, or needs key=, the column that names the samples"
        )


def require_matrix(array: Tensor, split: Any, file: str) -> Tensor:
    """``array``, if it is (N, c) with a row for each sample.

    Raises:
        ValueError: With its shape.
    """
    if array.ndim != 2:
        raise ValueError(f"{file} must be (N, c), not of shape {tuple(array.shape)}")
    require_rows(len(array), split, file)
    return array


def require_images(file: Path, split: Any) -> None:
    """Refuse a safetensors file whose metadata names other images.

    Raises:
        ValueError: If the fingerprint in the file is not the split's.
    """
    fingerprint = read_header(file)[1].get("dataset")
    if fingerprint is not None and fingerprint != of_split(split):
        raise ValueError(f"{file} belongs to another data set: its images differ")


def _take(cells: Any, rows: list[int]) -> Any:
    """The cells of some rows; for row -1 None, or NaN in an array of vectors."""
    missing = torch.tensor(rows) < 0
    if isinstance(cells, np.ndarray) and cells.ndim == 1 and missing.any():
        cells = cells.tolist()
    if not isinstance(cells, np.ndarray):
        return [cells[row] if row >= 0 else None for row in rows]
    taken = from_numpy(cells[rows])
    return taken.float().masked_fill(missing[:, None], torch.nan) if missing.any() else taken

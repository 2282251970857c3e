"""The rows of a file that belong to the samples of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins.files.tables import choose, read_table


def read_rows(
    file: str | Path, key: str | None, split: Any, words: Sequence[str] = ()
) -> dict[str, Any]:
    """The columns of a table, a row for each sample of a split; None for samples that it does not name.

    Args:
        file: ``.csv`` or ``.parquet``.
        key: The column that names the samples, as the metadata's of the same name does; None: row i is
            sample i.
        split: A torch Dataset with ``metadata``.
        words: Columns whose cells are words, though some or all look like numbers.

    Raises:
        ValueError: For a file that does not fit the split.
    """
    table = read_table(file, words=[*words] if key is None else [*words, key])
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


def match_rows(named: Sequence[Any], samples: Sequence[Any], file: str, key: str) -> list[int]:
    """For each sample the row of a file that names it; -1 where none does.

    Args:
        named: The samples that the file's rows name.
        samples: (N,) the names of the data set's samples; None is no name.
        file: The file, for errors.
        key: The column of names.

    Raises:
        ValueError: For a sample that two rows name, a row that names none, and where no row names any
            sample of the data set.
    """
    rows: dict[str, int] = {}
    for row, name in enumerate(named):
        if name is None or str(name) == "":
            raise ValueError(f"{file}: row {row} names no sample in its column {key!r}")
        if str(name) in rows:
            raise ValueError(
                f"{file} names the sample {str(name)!r} in rows {rows[str(name)]} and {row}"
                f" (column {key!r})"
            )
        rows[str(name)] = row
    found = [-1 if name is None else rows.get(str(name), -1) for name in samples]
    if samples and max(found) < 0:
        raise ValueError(
            f"{file} is of another data set: its column {key!r} names {next(iter(rows), None)!r} and"
            f" others, the data set's {str(samples[0])!r} and others, and none is in both"
        )
    return found


def sample_names(split: Any, column: str) -> list[Any]:
    """(N,) the entries of a metadata column as they are written: words for ids of words.

    Raises:
        ValueError: For a column that the data set does not have.
    """
    values = choose(split.metadata, [column], "the data set")[column]
    listed: list[Any] = values.tolist() if isinstance(values, Tensor) else list(values)
    words = getattr(split, "vocabulary", {}).get(column)
    if words is None:
        return listed
    return [words[i] if i >= 0 else None for i in listed]


def require_rows(count: int, split: Any, file: str) -> None:
    """Refuse a file without names whose rows are not as many as the samples.

    Raises:
        ValueError: Where they are not.
    """
    if count != len(split):
        raise ValueError(
            f"{file} has {count} rows, and the data set {len(split)} samples: it is of another data"
            " set or split, or needs key=, the column that names the samples"
        )

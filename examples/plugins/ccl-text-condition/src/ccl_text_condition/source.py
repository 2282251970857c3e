"""Where texts come from: a column of the metadata, or of a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any


def from_metadata(split: Any, column: str) -> list[Any]:
    """(N,) the words in a column of a split, None where there are none.

    Columns of words come as ids with a vocabulary, or as lists.

    Raises:
        ValueError: For a column that is not there.
    """
    if column not in split.metadata:
        raise ValueError(
            f"the data set has no column {column!r}; it has {', '.join(sorted(split.metadata))}"
        )
    values = split.metadata[column]
    entries = values.tolist() if hasattr(values, "tolist") else list(values)
    words = getattr(split, "vocabulary", {}).get(column)
    if words is None:
        return entries
    return [words[i] if i >= 0 else None for i in entries]


def from_csv(path: Path, column: str, key: str | None, split: Any) -> list[Any]:
    """(N,) the texts in a column of a CSV file, None for samples that it does not name.

    Args:
        path: The file; its first line has the names.
        column: The column of texts.
        key: The column that names the samples, as the data set's of the same name does; None: row i is
            sample i.
        split: The split whose samples they are.

    Raises:
        ValueError: For a column that is not there, another number of rows without a key, a sample that
            two rows name, and a file that names none of the samples.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        for name in (column, key):
            if name is not None and name not in (reader.fieldnames or ()):
                raise ValueError(
                    f"{path} has no column {name!r}; it has {', '.join(reader.fieldnames or ())}"
                )
    if key is None:
        if len(rows) != len(split):
            raise ValueError(
                f"{path} has {len(rows)} rows, and the data set {len(split)} samples: it is of"
                " another data set or split, or needs key=, the column that names the samples"
            )
        return [row[column] for row in rows]
    texts: dict[str, str] = {}
    for row in rows:
        if row[key] in texts:
            raise ValueError(f"{path} names the sample {row[key]!r} twice in its column {key!r}")
        texts[row[key]] = row[column]
    found = [texts.get(str(name)) for name in from_metadata(split, key)]
    if all(text is None for text in found):
        raise ValueError(
            f"{path} is of another data set: no sample is in its column {key!r}, which has"
            f" {next(iter(texts), None)!r} and others"
        )
    return found

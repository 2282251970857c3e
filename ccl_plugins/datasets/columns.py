"""What of a table of images becomes metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


def check_rows(path: Path, table: Mapping[str, Any], image: str, label: str) -> None:
    """Whether every row of a table has an image of its own and a label.

    Raises:
        ValueError: Otherwise, naming the row.
    """
    for name in (image, label):
        if name not in table:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(table)}")
    if not len(table[image]):
        raise ValueError(f"{path} has no rows")
    for name in (image, label):
        for row, value in enumerate(table[name]):
            if value is None or value != value:  # NaN alone differs from itself
                raise ValueError(f"{path}, row {row} (from 0): {name!r} is empty")
    first: dict[str, int] = {}
    for row, value in enumerate(table[image]):
        if value in first:
            raise ValueError(
                f"{path}: {value!r} stands in the rows {first[value]} and {row} (from 0); what is said"
                " of one image must be in one row"
            )
        first[value] = row


def choose_columns(
    table: Mapping[str, Any],
    columns: Sequence[str] | None,
    blocks: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Single columns, and blocks of columns side by side.

    Args:
        table: The columns there are to choose from.
        columns: Those wanted as they are; None: all that are in no block.
        blocks: Names and patterns of the columns of each block.

    Raises:
        ValueError: For names that the table does not have or two columns would get, and for words in a
            block.
    """
    members = {
        block: [name for name in table if any(fnmatchcase(name, p) for p in patterns)]
        for block, patterns in blocks.items()
    }
    inside = {name for names in members.values() for name in names}
    single = [name for name in table if name not in inside] if columns is None else columns
    there = f"there are {', '.join(table)}"
    for name in single:
        if name not in table:
            raise ValueError(f"there is no column {name!r}; {there}")
    for block, names in members.items():
        if not names:
            raise ValueError(f"block {block!r}: no column is one of {list(blocks[block])}; {there}")
        if block in single:
            raise ValueError(f"block {block!r} has the name of a column: choose another")
    made = {block: _side_by_side(block, names, table) for block, names in members.items()}
    return {name: table[name] for name in single} | made


def _side_by_side(block: str, names: Sequence[str], table: Mapping[str, Any]) -> list[Any]:
    """The rows of several columns of numbers."""
    for name in names:
        word = next((cell for cell in table[name] if isinstance(cell, str)), None)
        if word is not None:
            raise ValueError(
                f"block {block!r} is made of numbers, and column {name!r} has {word!r}"
            )
    return [list(row) for row in zip(*(table[name] for name in names), strict=True)]

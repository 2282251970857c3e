"""Tables in files: CSV with the standard library, Parquet with pyarrow."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def read_table(path: str | Path, words: Sequence[str] = ()) -> dict[str, Any]:
    """The columns of a table, by name.

    In a CSV file the first line has the names.  A column of numbers (or of True and False) is read as
    such, and an empty cell is None; a column without a name, as data frames write their index, is left
    out.  Quoted cells, commas and line breaks in them are as in any CSV file; the encoding is UTF-8.

    Args:
        path: A file that ends in ``.csv`` or ``.parquet``.
        words: Columns of a CSV file whose cells are words, though some or all look like numbers.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: For another ending, a line with too few or too many cells, two columns of one name,
            and a column with words among its numbers, naming the line.
        ImportError: For Parquet, if pyarrow is not installed.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no table {str(path)!r}")
    if path.suffix == ".csv":
        return _read_csv(path, words)
    if path.suffix == ".parquet":
        return _read_parquet(path)
    raise ValueError(f"a table ends in .csv or .parquet, not as {path.name!r}")


def choose(columns: Mapping[str, Any], names: Sequence[str] | None, place: str) -> dict[str, Any]:
    """The columns of these names, in this order; None takes all.

    Raises:
        ValueError: For a column that is not there, with those that are.
    """
    for name in names or ():
        if name not in columns:
            there = [*columns][:20]
            more = ", ..." if len(columns) > len(there) else ""
            raise ValueError(f"{place} has no column {name!r}; it has {', '.join(there)}{more}")
    return {name: columns[name] for name in (columns if names is None else names)}


def _read_csv(path: Path, words: Sequence[str]) -> dict[str, list[Any]]:
    lines, rows = [], []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            for cells in reader:
                lines.append(reader.line_num)
                rows.append(cells)
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}, after line {reader.line_num}: {error}") from error
    while rows and not rows[-1]:  # empty lines at the end
        rows.pop()
    for line, cells in zip(lines, rows, strict=False):
        if len(cells) != len(header):
            raise ValueError(
                f"{path}, line {line}: {len(cells)} cells, and the first line has {len(header)}"
            )
    twice = {name for name in header if name and header.count(name) > 1}
    if twice or not any(header):
        raise ValueError(f"{path}: the first line must have names, each once, not {header}")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else {}
    return {
        name: [cell or None for cell in columns.get(name, ())]
        if name in words
        else _read_cells(f"{path}: column {name!r}", columns.get(name, ()), lines)
        for name in header
        if name
    }


def _read_cells(place: str, cells: Sequence[str], lines: Sequence[int]) -> list[Any]:
    """Cells as whole numbers, numbers, truth values or words, whichever all of them are."""
    there = set(cells) - {""}
    if there and there <= {"True", "False"}:
        return [None if cell == "" else cell == "True" for cell in cells]
    for read in (int, float):
        try:
            values: Mapping[str, Any] = {cell: read(cell) for cell in there if _is_plain(cell)}
        except ValueError:
            continue
        if len(values) == len(there):
            return [values.get(cell) for cell in cells]
    numbers = {cell for cell in there if _is_number(cell)}
    if numbers:
        word = next(cell for cell in cells if cell and cell not in numbers)
        number = next(cell for cell in cells if cell in numbers)
        raise ValueError(
            f"{place} has {word!r} in line {lines[cells.index(word)]} among numbers such as {number!r}"
            f" in line {lines[cells.index(number)]}: leave a missing cell empty; where all are names,"
            " say that the column is categorical"
        )
    return [cell or None for cell in cells]


def _is_plain(cell: str) -> bool:
    return "_" not in cell  # Python reads 1_000 as a number, and nobody else does


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return _is_plain(cell)


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"{path} needs pyarrow, which is not installed: pip install 'ccl-plugins[table]'"
        ) from error
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} is no readable Parquet file: {error}") from error
    return {
        name: _read_column(table.column(name))
        for name in table.column_names
        if not name.startswith("__index_level_")  # how pandas writes the index
    }


def _read_column(column: Any) -> Any:
    """A column of vectors without gaps as an array, another as a list, in which None is missing."""
    from pyarrow import compute, types

    vectors = types.is_list(column.type) or types.is_fixed_size_list(column.type)
    if vectors and not column.null_count:
        lengths = set(compute.list_value_length(column).to_pylist())
        flat = compute.list_flatten(column)
        number = types.is_integer(flat.type) or types.is_floating(flat.type)
        if len(lengths) == 1 and number and not flat.null_count:
            # 100,000 vectors of 512 numbers are 50 million Python objects otherwise.
            return flat.to_numpy().reshape(-1, *lengths)
    return column.to_pylist()

"""Tables in files: CSV with the standard library, Parquet with pyarrow."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Columns(dict[str, Any]):
    """The columns of a table, by name.

    Attributes:
        left_out: The type of each column that holds neither words nor numbers, nor vectors of them.
    """

    def __init__(
        self, columns: Mapping[str, Any], left_out: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(columns)
        self.left_out = dict(left_out or {})


def read_table(
    path: str | Path,
    words: Sequence[str] = (),
    *,
    sep: str | None = None,
    encoding: str = "utf-8",
) -> Columns:
    """The columns of a table, by name.

    In a CSV file the first line holds the names.  A column of numbers (or of True and
    False) is read as such, and an empty cell is None.  A column without a name, as data frames write
    their index, is left out.  So are columns of a Parquet file that hold neither words nor numbers (times,
    bytes, structs, maps, lists of different lengths): a table may have them, as long as nobody reads them.

    Args:
        path: A file that ends in ``.csv``, ``.tsv`` or ``.parquet``.
        words: Columns of a CSV file whose cells are words, though some or all look like numbers.
        sep: What separates the cells of a CSV file; None: a comma, or where the first line has none, a
            semicolon or a tab.  Between semicolons, numbers may have a decimal comma.
        encoding: That of a CSV file, as ``"cp1252"``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: For another ending or an unknown encoding, a line with too few or too many cells, two
            columns of one name, and a column with words among its numbers, naming the line.
        ImportError: For Parquet, if pyarrow is not installed.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no table {str(path)!r}")
    if path.suffix in (".csv", ".tsv"):
        return Columns(_read_csv(path, words, sep, encoding))
    if path.suffix == ".parquet":
        return _read_parquet(path)
    raise ValueError(f"a table ends in .csv, .tsv or .parquet, not as {path.name!r}")


def choose(columns: Mapping[str, Any], names: Sequence[str] | None, place: str) -> dict[str, Any]:
    """The columns of these names, in this order; all columns for None.

    Args:
        columns: By name.
        names: The columns to take.
        place: Where the columns are from, for errors.

    Raises:
        ValueError: For a name without a column, listing the columns.
    """
    for name in names or ():
        if name in getattr(columns, "left_out", ()):
            raise ValueError(
                f"the column {name!r} of {place} holds neither words nor numbers, but"
                f" {columns.left_out[name]}: write it as one of them"  # type: ignore[attr-defined]
            )
        if name not in columns:
            listed = ", ".join([*columns][:20]) + (", ..." if len(columns) > 20 else "")
            raise ValueError(f"{place} has no column {name!r}; it has {listed}")
    return {name: columns[name] for name in (columns if names is None else names)}


def _read_csv(
    path: Path, words: Sequence[str], sep: str | None, encoding: str
) -> dict[str, list[Any]]:
    lines: list[int] = []
    header: list[str] = []
    rows: list[list[str]] = []
    if encoding.lower().replace("-", "").replace("_", "") == "utf8":
        encoding = "utf-8-sig"  # a mark of the order of bytes is none of the first name
    try:
        opened = path.open(encoding=encoding, newline="")
    except LookupError as error:
        raise ValueError(f"encoding must be one that Python knows, not {encoding!r}") from error
    with opened as file:
        reader: Any = csv.reader([])
        try:
            sep = sep or _separator(file.readline())
            file.seek(0)
            reader = csv.reader(file, strict=True, delimiter=sep)
            header = next(reader, [])
            for cells in reader:
                lines.append(reader.line_num)
                rows.append(cells)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, after line {reader.line_num}: {error}; if it was written in another encoding,"
                ' give it, as encoding = "cp1252"'
            ) from error
        except (csv.Error, TypeError) as error:
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
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {
        name: [cell or None for cell in cells]
        if name in words
        else _read_cells(
            f"{path}: column {name!r}", cells, lines, decimal="," if sep == ";" else "."
        )
        for name, cells in zip(header, columns, strict=True)
        if name
    }


def _separator(header: str) -> str:
    """What separates the names of a first line."""
    if "," in header:
        return ","
    return max(";\t", key=header.count) if {";", "\t"} & {*header} else ","


def _read_cells(
    place: str, cells: Sequence[str], lines: Sequence[int], decimal: str = "."
) -> list[Any]:
    """Cells as whole numbers, numbers, truth values or words, whichever all of them are."""
    filled = set(cells) - {""}
    if filled and filled <= {"True", "False"}:
        return [None if cell == "" else cell == "True" for cell in cells]
    numbers = {cell: number for cell in filled if (number := _number(cell, decimal)) is not None}
    if not numbers:
        return [cell or None for cell in cells]
    if len(numbers) < len(filled):
        word = next(cell for cell in cells if cell and cell not in numbers)
        like = next(cell for cell in cells if cell in numbers)
        raise ValueError(
            f"{place} has {word!r} in line {lines[cells.index(word)]} among numbers such as {like!r}"
            f" in line {lines[cells.index(like)]}: leave a missing cell empty; if all are names,"
            " declare the column categorical"
        )
    if not all(isinstance(number, int) for number in numbers.values()):
        numbers = {cell: float(number) for cell, number in numbers.items()}
    return [numbers.get(cell) for cell in cells]


def _number(cell: str, decimal: str = ".") -> int | float | None:
    """The number that a cell holds, or None; with "_" it is a word, though Python reads 1_000."""
    if decimal == "," and "." not in cell:
        cell = cell.replace(",", ".", 1)
    for read in (int, float):
        try:
            return None if "_" in cell else read(cell)
        except ValueError:
            continue
    return None


def _read_parquet(path: Path) -> Columns:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"{path} needs pyarrow, which is not installed: pip install 'ccl-plugins[table]'"
        ) from error
    try:
        _refuse_too_large(path, parquet.ParquetFile(path).metadata)
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} is no readable Parquet file: {error}") from error
    return arrow_columns(table)


def arrow_columns(table: Any) -> Columns:
    """The columns of a pyarrow table that hold words, numbers or vectors; None where a cell is missing."""
    columns, left_out = {}, {}
    for name in table.column_names:
        if name.startswith("__index_level_"):  # how pandas writes the index
            continue
        column = table.column(name)
        values = _read_column(column)
        if values is None:
            left_out[name] = str(column.type)
        else:
            columns[name] = values
    return Columns(columns, left_out)


CELL = 64
"""Bytes that a cell takes in memory, as an object of Python."""


def _refuse_too_large(path: Path, about: Any) -> None:
    """Refuse a Parquet file that memory cannot hold: a small one may hold a value a billion times.

    Raises:
        ValueError: If its cells would take more than the memory of this machine.
    """
    groups = range(about.num_row_groups)
    need = sum(about.row_group(i).total_byte_size for i in groups)
    need += CELL * about.num_rows * about.num_columns
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > memory:
        raise ValueError(
            f"{path} has {about.num_rows} rows and {about.num_columns} columns, which need"
            f" {need / 2**30:.0f} GiB of memory, and this machine has {memory / 2**30:.0f}: write the rows"
            " and columns that are needed into a table of their own"
        )


def _read_column(column: Any) -> Any:
    """An array for numbers or vectors without gaps; else a list, with None for missing cells.

    None for a column that holds neither words nor numbers, nor vectors of equally many numbers.
    """
    from pyarrow import compute, float64, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast(float64())
    kind = column.type
    if _is_number(kind) and not column.null_count:
        return column.to_numpy()  # a hundred million numbers are as many Python objects otherwise
    if _is_number(kind) or any(
        is_word(kind) for is_word in (types.is_string, types.is_large_string, types.is_string_view)
    ):
        return column.to_pylist()
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not lists or not _is_number(kind.value_type):
        return None
    if len(compute.unique(compute.list_value_length(column)).drop_null()) > 1:
        return None
    flat = compute.list_flatten(column)
    if column.null_count or flat.null_count or types.is_boolean(kind.value_type) or not len(flat):
        return column.to_pylist()
    # 100,000 vectors of 512 numbers are 50 million Python objects otherwise.
    return flat.to_numpy().reshape(len(column), -1)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))

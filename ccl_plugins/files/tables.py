"""Tables in files: CSV with the standard library, Parquet with pyarrow."""

from __future__ import annotations

import codecs
import csv
import math
import os
import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ccl_plugins.files.messages import printable
from ccl_plugins.files.reading import reading


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


def read_table(path: str | Path, words: Sequence[str] = (), **how: Any) -> Columns:
    """The columns of a table, by name: `read_tables` of one."""
    return read_tables([path], words, **how)[0]


def read_tables(
    paths: Iterable[str | Path],
    words: Sequence[str] = (),
    *,
    numbers: Sequence[str] = (),
    classes: Sequence[str] = (),
    only: Sequence[str] | None = None,
    sep: str | None = None,
    encoding: str = "utf-8",
) -> list[Columns]:
    """The columns of tables that belong together, such as train and test, by name.

    In a CSV file the first row holds the names; `values_of` decides a column's type by the cells of
    all files. An empty cell is None. A column without a name, such as a data frame's index, is left
    out. Columns of a Parquet file that hold neither words nor numbers (times, bytes, structs, maps,
    lists of different lengths) are left out too: a table may have them if nothing reads them.

    Args:
        paths: Files that end in ``.csv``, ``.tsv`` or ``.parquet``.
        words: Columns of a CSV file whose cells are words, even if they look like numbers.
        numbers: Columns of a CSV file whose cells are numbers, even if they look like names.
        classes: Columns of a CSV file of classes: words, or whole numbers.
        only: The columns of CSV files that are read; None: all.
        sep: The separator of a CSV file's cells; None: a comma, or if the first line has none, a
            semicolon or a tab. With another separator than a comma, numbers may have a decimal
            comma.
        encoding: The encoding of a CSV file, such as ``"cp1252"``; a byte-order mark in the file
            overrides it.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: For another ending or an unknown encoding, a row with too few or too many cells,
            two columns with the same name, and a column with words among its numbers; the message
            names the row.
        ImportError: For Parquet, if pyarrow is not installed.
    """
    declared = {**dict.fromkeys(classes, "classes"), **dict.fromkeys(numbers, "numbers")}
    declared |= dict.fromkeys(words, "words")
    tables: list[Columns] = []
    texts: list[tuple[Columns, dict[str, Cells]]] = []
    for path in (Path(each).expanduser() for each in paths):
        ending = path.suffix.lower()
        if ending == ".parquet":
            tables.append(_read_parquet(path))
        elif ending in (".csv", ".tsv"):
            with reading(path, "table"):
                cells = _read_csv(path, sep, encoding)
            cells = {n: each for n, each in cells.items() if only is None or n in only}
            tables.append(Columns(dict.fromkeys(cells)))
            texts.append((tables[-1], cells))
        else:
            raise ValueError(f"a table ends in .csv, .tsv or .parquet, not as {path.name!r}")
    for name in dict.fromkeys(name for _, cells in texts for name in cells):
        having = [(table, cells[name]) for table, cells in texts if name in cells]
        values = values_of([cells for _, cells in having], declared.get(name, ""))
        for (table, _), column in zip(having, values, strict=True):
            table[name] = column
    return tables


def choose(columns: Mapping[str, Any], names: Sequence[str] | None, place: str) -> dict[str, Any]:
    """The columns of these names, in this order; all columns for None.

    Args:
        columns: By name.
        names: The columns to take.
        place: The source of the columns, for errors.

    Raises:
        ValueError: For a name without a column; the message lists the columns.
    """
    for name in names or ():
        if name in getattr(columns, "left_out", ()):
            raise ValueError(
                f"the column {name!r} of {place} holds neither words nor numbers, but"
                f" {columns.left_out[name]}: write it as one of them"  # type: ignore[attr-defined]
            )
        if name not in columns:
            listed = printable(", ".join([*columns][:20])) + (", ..." if len(columns) > 20 else "")
            raise ValueError(f"{place} has no column {name!r}; it has {listed}")
    return {name: columns[name] for name in (columns if names is None else names)}


def row_of(path: str | Path, row: int) -> str:
    """The name of a table's row, counted from 0, in messages: its number as programs show it.

    A spreadsheet shows the names of a CSV file in row 1, and the first values in row 2. For Parquet
    files the message says that rows count from 0.
    """
    named = Path(path).suffix.lower() in (".csv", ".tsv")
    return f"row {row + 2}" if named else f"row {row} (from 0)"


MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # it begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte-order marks, and their encodings."""


BINARY = {
    b"\x1f\x8b": "compressed (gzip)",
    b"PK\3\4": "a zip archive or a workbook of Excel",
    b"PAR1": "Parquet",
}
"""The first bytes of files that are sometimes given the name of a CSV file."""


class Cells(NamedTuple):
    """A column of a CSV file: its name and file, its cells, and its decimal mark."""

    name: str
    path: Path
    cells: Sequence[str]
    decimal: str = "."


def _read_csv(path: Path, sep: str | None, encoding: str) -> dict[str, Cells]:
    header: list[str] = []
    rows: list[list[str]] = []
    with path.open("rb") as begin:
        first = begin.read(64)
    marked = next((MARKS[mark] for mark in MARKS if first.startswith(mark)), "")
    if kind := next((BINARY[mark] for mark in BINARY if first.startswith(mark)), ""):
        raise ValueError(f"{path} is no text but {kind}: write it as a table of text")
    if not marked and encoding == "utf-8" and b"\0" in first:
        order = "le" if first.find(b"\0") % 2 else "be"
        raise ValueError(
            f"{path} has zero bytes, as in text with two bytes for each letter: give its encoding, such as"
            f' encoding = "utf-16-{order}"'
        )
    encoding = marked or encoding
    try:
        opened = path.open(encoding=encoding, newline="")
    except LookupError as error:
        raise ValueError(
            f"{path}: encoding must be one that Python knows, not {encoding!r}"
        ) from error
    with opened as file:
        reader: Any = csv.reader([])
        try:
            sep = sep or _separator(file.readline(), "\t" if path.suffix.lower() == ".tsv" else ",")
            file.seek(0)
            reader = csv.reader(file, strict=True, delimiter=sep)
            header = next(reader, [])
            rows.extend(reader)
        except UnicodeError as error:
            raise ValueError(
                f"{path}, after row {len(rows) + bool(header)}: {error}; if it was written in another"
                ' encoding, give it, as encoding = "cp1252"'
            ) from error
        except (csv.Error, TypeError, ValueError) as error:
            raise ValueError(f"{path}, after row {len(rows) + bool(header)}: {error}") from error
    while rows and not rows[-1]:  # empty lines at the end
        rows.pop()
    for row, cells in enumerate(rows):
        if len(cells) != len(header):
            raise ValueError(
                f"{path}, {row_of(path, row)}: {len(cells)} cells, and the first row has {len(header)}"
            )
    twice = {name for name in header if name and header.count(name) > 1}
    if twice or not any(header):
        raise ValueError(f"{path}: the first row must have names, each once, not {header}")
    columns = [*zip(*rows, strict=True)] if rows else [()] * len(header)
    decimal = _decimal(chain(*columns), sep, "," if sep == ";" else ".")
    return {
        name: Cells(name, path, cells, _decimal(cells, sep, decimal))
        for name, cells in zip(header, columns, strict=True)
        if name
    }


def _separator(header: str, usual: str) -> str:
    """The separator of the names in a first line."""
    return usual if usual in header else max(",;\t", key=header.count)


def _decimal(cells: Iterable[str], sep: str, usual: str) -> str:
    """The decimal mark of cells; a mark only before three digits may separate thousands."""
    if sep == ",":
        return "."
    written = (DECIMAL.fullmatch(cell) for cell in {*cells})
    marks = {found[1] for found in written if found and not GROUPED.fullmatch(found[0])}
    return marks.pop() if len(marks) == 1 else usual


DECIMAL = re.compile(r"\s*[+-]?[0-9]*([.,])[0-9]+\s*")
NOTHING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""Cells, in small letters, that stand for no number, as R, pandas, Excel and SQL write them."""

GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:[ .,'_\u00a0\u2009\u202f][0-9]{3})+(?:[.,][0-9]+)?")
"""A number with separated thousands, which Python reads as another number or not at all."""

FORMS = {
    "whole": r"0|-?[1-9]\d*",
    "round": r"-?(?!0\d)\d+\.0*",
    "real": r"\s*[+-]?(?!0\d)(\d+\.\d*|\.\d+)(e[+-]?\d+)?\s*|-?(?!0\d)\d+e[+-]\d+",
    "zeros": r"\s*[+-]?0\d+\.?\d*(e[+-]?\d+)?\s*",
    "odd": r"\s*[+-]?\d+(e[+-]?\d+)?\s*",
    "none": r"\s*[+-]?(nan|inf|infinity)\s*",
}
"""The forms of cells that Python reads as numbers, of which the first match counts: whole; with
decimal places of zero; with other decimal places, or a program's exponent; with leading zeros;
other forms, such as ``+7``, ``" 7"`` and ``1e5``; and forms that mean no number."""

FORM = re.compile(
    "|".join(f"(?P<{form}>{how})" for form, how in FORMS.items()), re.ASCII | re.IGNORECASE
)
REFUSED = ("word", "none", "apart")
"""The forms that no cell among numbers may have."""

NO_LETTERS = re.compile(r"[\W\d_]*(e[\W\d_]*)?", re.IGNORECASE)


def values_of(parts: Sequence[Cells], declared: str = "") -> list[list[Any]]:
    """The values of a column of text, for each file that has it; only here does text become numbers.

    A column holds numbers if every cell is a number in a program's notation, so that no two names
    become the same number. If some cells have decimal places, which names lack, other cells may
    have other forms, such as ``+7``, ``1e5`` or ``nan``. Leading zeros, such as in ``007``, make
    the whole column words. ``NA`` is missing only in a column that is declared numbers: elsewhere
    ``NA`` may be a name.

    Args:
        parts: The column in each file; all its cells together decide.
        declared: ``"words"``; ``"numbers"``, also with leading zeros; ``"classes"``: words or whole
            numbers; empty: decided by the cells.

    Raises:
        ValueError: For words among numbers; the message names the rows of both.

    Warns:
        UserWarning: For a column of words that may be numbers, such as ``1e5`` or ``1,000``.
    """
    words = [[cell if cell.strip() else None for cell in part.cells] for part in parts]
    if declared == "words":
        return words
    if {*chain(*words)} <= {"True", "False", None}:  # also if there are no cells
        return [[cell and cell == "True" for cell in column] for column in words]
    absent = NOTHING if declared == "numbers" else {""}
    forms = {
        (cell, part.decimal): "" if cell.strip().lower() in absent else _form(cell, part.decimal)
        for part in parts
        for cell in {*part.cells}
    }
    found = {*forms.values()} - {""}
    plain = {"whole"}
    if declared == "numbers" and found <= FORMS.keys():
        plain |= found
    elif declared == "classes":
        plain |= {"round"}
    elif found & {"round", "real"}:
        plain |= {"round", "real", "odd", "none"}
    if found <= plain:
        whole = declared == "classes" or found == {"whole"}
        numbers = {key: _number(*key, whole) if form else None for key, form in forms.items()}
        return [[numbers[cell, part.decimal] for cell in part.cells] for part in parts]
    if "zeros" not in found and found != {"word"}:
        _say_which(parts, forms)
    return words


def _form(cell: str, decimal: str) -> str:
    """The form of a cell: one of `FORMS`; ``"apart"`` with separated thousands; ``"word"``; or empty."""
    text = cell.strip()
    if not text:
        return ""
    dotted = _dotted(cell, decimal)
    match = FORM.fullmatch(dotted)
    form = (match.lastgroup if match else None) or "word"
    if form == "whole" and (len(dotted) > 20 or not -(2**63) <= int(dotted) < 2**63):
        form = "odd"
    if form not in ("word", "none") and math.isinf(float(dotted)):
        return "word"
    if form == "word" and NO_LETTERS.fullmatch(text):
        like = unicodedata.normalize("NFKC", text).replace("_", "").replace(",", ".", 1)
        form = "apart" if GROUPED.fullmatch(text) or FORM.fullmatch(like) else form
    return form


def _dotted(cell: str, decimal: str) -> str:
    """A cell with a point as decimal mark; empty if it has a point with another meaning."""
    return cell if decimal == "." else "" if "." in cell else cell.replace(",", ".", 1)


def _number(cell: str, decimal: str, whole: bool) -> int | float:
    dotted = _dotted(cell, decimal)
    return int(dotted.partition(".")[0]) if whole else float(dotted)


def _say_which(parts: Sequence[Cells], forms: Mapping[tuple[str, str], str]) -> None:
    """Refuse words among numbers, and warn of words that all may be numbers."""
    first: dict[str, tuple[Cells, str]] = {}
    for part in parts:
        for row, cell in enumerate(part.cells):
            where = f"{cell!r:.80} in {row_of(part.path, row)}"
            first.setdefault(forms[cell, part.decimal], (part, where))

    def earliest(*of: str) -> tuple[Cells, str] | None:
        return next((where for form, where in first.items() if form in of), None)

    like, other = earliest("whole", "round", "real"), earliest(*REFUSED)
    if like is not None and other is not None:
        (part, cell), (its, number) = other, like
        place = f"{part.path}: column {part.name!r} has {cell} among numbers such as {number}"
        place += f" of {its.path}" if its is not part else ""
        if {key[0].strip().lower() for key, form in forms.items() if form in REFUSED} <= NOTHING:
            raise ValueError(
                f"{place}: declare the column continuous if that cell is a missing number, categorical if"
                " all are names"
            )
        raise ValueError(
            f"{place}: write a number as 1234{part.decimal}5, and leave a missing cell empty; if all are"
            " names, declare the column categorical"
        )
    odd = earliest("odd", "none", "apart", "real")
    if "word" not in first and odd is not None:
        part, cell = odd
        warnings.warn(
            f"{part.path}: column {part.name!r} has {cell}, which may be a name or a number, and is"
            " read as words: declare it categorical if they are names, continuous if they are numbers",
            stacklevel=2,
        )


def _read_parquet(path: Path) -> Columns:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"{path} needs pyarrow, which is not installed: pip install 'ccl-plugins[table]'"
        ) from error
    with reading(path, "readable Parquet file"):
        try:
            _refuse_too_large(path, parquet.ParquetFile(path).metadata)
            return arrow_columns(parquet.read_table(path))
        except ArrowException as error:  # some are also Python's errors, and some are not
            raise ValueError(str(error)) from error


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
"""The bytes of a cell in memory, as a Python object."""


def _refuse_too_large(path: Path, about: Any) -> None:
    """Refuse a Parquet file that does not fit into memory: a small file may hold a value a billion times.

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

"""A table of image files, labels and attributes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ccl_plugins.datasets.annotated import as_texts, refuse_twice
from ccl_plugins.datasets.image_files import ImageFileDataset, ImageFiles, OnError
from ccl_plugins.datasets.splitting import SPLITS
from ccl_plugins.files.images import Levels, Mode
from ccl_plugins.files.reading import naming_files
from ccl_plugins.files.tables import Columns, choose, read_tables, row_of
from ccl_plugins.metadata.columns import Encoded, encode
from ccl_plugins.protocols import ValueType


class ImageTable(ImageFileDataset):
    """A CSV or Parquet table with a row per image: its file, its label, its attributes, its captions.

    The columns of ``text`` are texts, not metadata. Every other column is metadata under its name.
    Words become class ids, in sorted order; words, whole numbers and truth values are
    ``"categorical"``, other numbers ``"continuous"``; an empty cell is missing. A column of a CSV
    file holds numbers only if every cell of both splits is a number in plain notation: ``007``,
    ``1e5`` and ``+7`` are words. Columns of a Parquet file that hold neither words nor numbers
    (times, bytes, structs) are left out. ``blocks`` puts columns side by side into one column of
    vectors, which is ``"multi_label"`` if they hold 0 and 1; a column of vectors in a Parquet file
    needs no block. In a block, yes and no are 1 and 0.

    Args:
        path: The table, ``.csv`` or ``.parquet``.
        image: The column of image files.
        label: The column of labels; its name in the metadata is ``label``. An empty name: the
            images have no labels, and all values of ``label`` are missing.
        root: The folder that files are relative to; None: the table's folder.
        split: The column that holds ``train`` or ``test`` in each row; other rows are not used.
        test: A table of the test images, with the same columns.
        columns: The columns that are metadata in addition to the label; None: all but those of
            ``text``.
        blocks: Columns to put side by side, under the new column's name; names or patterns, such as
            ``{"attributes": ["has_*"]}``, in the table's order.
        value_types: The value type of columns whose values do not show it.
        text: Columns of texts, such as captions, which a text tower reads; a row without a text is
            handled like an image that cannot be read.
        sep: The separator of a CSV file's cells; None: a comma, or if the first line has none, a
            semicolon or a tab.
        encoding: The encoding of a CSV file, such as ``"cp1252"``; a byte-order mark in the file
            overrides it.

    Raises:
        ValueError: If a parameter is out of its range, or not exactly one of ``split``, ``test`` and
            ``test_fraction`` is given; on use, for an invalid table; the message names column and
            row.
        FileNotFoundError: On use, if there is no such table.
        ImportError: On use, for Parquet, if pyarrow is not installed.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"path": "images.csv", "split": "split"}

    def __init__(
        self,
        path: str | Path,
        image: str = "image",
        label: str = "label",
        root: str | Path | None = None,
        split: str | None = None,
        test: str | Path | None = None,
        test_fraction: float | None = None,
        seed: int = 0,
        columns: Sequence[str] | None = None,
        blocks: Mapping[str, Sequence[str]] | None = None,
        value_types: Mapping[str, ValueType] | None = None,
        mode: Mode = "RGB",
        on_error: OnError = "error",
        text: Sequence[str] = (),
        group: str | None = None,
        sep: str | None = None,
        encoding: str = "utf-8",
        levels: Levels = None,
        page: int | None = None,
    ) -> None:
        given = {"split": split, "test": test, "test_fraction": test_fraction}
        if sum(value is not None for value in given.values()) != 1:
            raise ValueError(
                "give exactly one of split (a column), test (another table) and test_fraction, not"
                f" {given}"
            )
        tables = [Path(each).expanduser() for each in (path, test) if each is not None]
        super().__init__(tables, test_fraction, seed, mode, on_error, group, levels, page)
        self.image = image
        self.label = label
        self.root = tables[0].parent if root is None else Path(root).expanduser()
        self.split = split
        self.columns = columns
        self.blocks = dict(blocks or {})
        self.value_types = dict(value_types or {})
        self.text = list(text)
        self.csv: dict[str, Any] = {"sep": sep, "encoding": encoding}
        refuse_twice(self.text, image, label, split, *(columns or ()))

    def __call__(self, split: str) -> ImageFiles:
        """The ``"train"`` or ``"test"`` split."""
        with naming_files(*self.sources):
            return super().__call__(split)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold; reads the table."""
        return Columns(self._encoded.schema, left_out=self._tables[0].left_out)

    def texts(self) -> Sequence[str]:
        """The columns of texts."""
        return self.text

    def _texts(self, place: int) -> Mapping[str, Sequence[str]]:
        path, table = self.sources[place], self._tables[place]
        skip, cure = self.on_error == "skip", ': on_error="skip" leaves such rows out'
        return {name: as_texts(name, table[name], str(path), skip, cure) for name in self.text}

    def _read(self) -> tuple[list[list[str]], Encoded]:
        paths = [
            [str(self.root / Path(name).expanduser()) for name in table[self.image]]
            for table in self._tables
        ]
        return paths, self._encoded

    @cached_property
    def _tables(self) -> list[Columns]:
        declared = {self.label if n == "label" else n: v for n, v in self.value_types.items()}
        words = [name for name, value_type in declared.items() if value_type == "categorical"]
        tables = read_tables(
            self.sources,
            [self.image, self.split or "", *self.text, *words],
            numbers=[name for name in declared if name not in words],
            classes=[self.label, self.group or ""],
            **self.csv,
        )
        for path, table in zip(self.sources, tables, strict=True):
            _check_rows(path, table, self.image, self.label)
            choose(table, self.text, str(path))
        if len(tables) > 1:
            train, test = ({*map(os.path.normpath, table[self.image])} for table in tables)
            if both := sorted(train & test):
                warnings.warn(
                    f"{len(both)} images are both in {self.sources[0]} and in {self.sources[1]}, such as"
                    f" {both[0]!r}: a test of images that were trained on says little",
                    stacklevel=2,
                )
        return tables

    @cached_property
    def _encoded(self) -> Encoded:
        with naming_files(*self.sources):
            return encode(*map(self._metadata, self._tables), value_types=self.value_types)

    def _metadata(self, table: Columns) -> dict[str, Any]:
        special = (self.image, self.label, self.split, *self.text)
        label = table[self.label] if self.label else [""] * len(table[self.image])
        rest = Columns(
            {name: column for name, column in table.items() if name not in special},
            left_out=table.left_out,
        )
        chosen = _choose_columns(rest, self.columns, self.blocks)
        if "label" in chosen:
            what = (
                f"the column {self.label!r} is the label"
                if self.label
                else "no column is the label"
            )
            raise ValueError(
                f"{what}, and there is another of the name 'label': choose the others with columns"
            )
        return {"label": label, **chosen}

    def _rows(self, split: str, files: ImageFiles) -> list[int]:
        if self.split is None:
            return super()._rows(split, files)
        (path,), (table,) = self.sources, self._tables
        values = choose(table, [self.split], str(path))[self.split]
        for row, value in enumerate(values):
            if value not in SPLITS and (meant := str(value).strip().lower()) in SPLITS:
                raise ValueError(
                    f"{path}, {row_of(path, row)}: the split {value!r} is neither 'train' nor 'test':"
                    f" write it as {meant!r}"
                )
        rows = [row for row, value in enumerate(values) if value == split]
        if not rows:
            listed = ", ".join(sorted({repr(value) for value in values}))
            raise ValueError(f"{path}: no row has {split!r} in {self.split!r}, but {listed}")
        return rows


def _check_rows(path: Path, table: Mapping[str, Any], image: str, label: str) -> None:
    """Refuse a table with a row without image or label, or an image in two rows."""
    required = choose(table, [image, *([label] if label else [])], str(path))
    if not len(table[image]):
        raise ValueError(f"{path} has no rows")
    for name, column in required.items():
        for row, value in enumerate(column):
            if value is None or value != value:  # NaN alone differs from itself
                raise ValueError(f"{path}, {row_of(path, row)}: {name!r} is empty")
    if not isinstance(table[image][0], str):
        raise ValueError(f"{path}: {image!r} must hold names of files, not {table[image][0]}")
    first: dict[str, int] = {}
    for row, value in enumerate(table[image]):
        if (other := first.setdefault(os.path.normpath(value), row)) != row:
            raise ValueError(
                f"{path}: {value!r} is in {row_of(path, other)} and {row_of(path, row)}: an image must"
                " have one row"
            )


def _choose_columns(
    table: Mapping[str, Any],
    columns: Sequence[str] | None,
    blocks: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Single columns (None: all that are not in a block), and blocks of columns side by side."""
    members = {
        block: [name for name in table if any(fnmatchcase(name, p) for p in patterns)]
        for block, patterns in blocks.items()
    }
    inside = {name for names in members.values() for name in names}
    single = [name for name in table if name not in inside] if columns is None else columns
    chosen = choose(table, single, "the table")
    for block, names in members.items():
        if not names:
            raise ValueError(
                f"block {block!r}: no column is one of {list(blocks[block])}; there are"
                f" {', '.join(table)}"
            )
        if block in single:
            raise ValueError(f"block {block!r} has the name of a column: choose another")
        chosen[block] = _side_by_side(block, names, table)
    return chosen


def _side_by_side(block: str, names: Sequence[str], table: Mapping[str, Any]) -> list[Any]:
    """The rows of several columns of numbers, or of words for 1 and 0."""
    columns = []
    for name in names:
        column = table[name]
        given = column.tolist() if hasattr(column, "tolist") else column
        cells = [_BITS.get(c.strip().lower(), c) if isinstance(c, str) else c for c in given]
        word = next((cell for cell in cells if isinstance(cell, str)), None)
        if word is not None:
            raise ValueError(f"block {block!r} needs numbers, but column {name!r} has {word!r}")
        columns.append(cells)
    return [list(row) for row in zip(*columns, strict=True)]


_BITS = {"yes": 1, "no": 0, "true": 1, "false": 0, "1": 1, "0": 0}

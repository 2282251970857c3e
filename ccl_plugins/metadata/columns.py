"""Metadata columns as tensors: words become class ids, and value types are read from the values.

A column is a tensor, a numpy array, a list of numbers or a list of words, one row per sample.  Missing
values are None, NaN or an empty word; encoded they are -1 among class ids and NaN among numbers.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.files.arrays import NUMBERS, beyond, from_numpy, real
from ccl_plugins.files.reading import naming_files
from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.variable import Variable, as_value_type
from ccl_plugins.protocols import VALUE_TYPES, ValueType

DOUBTFUL = frozenset({"NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None"})
"""Words that pandas, R and databases write for a missing value, and that may be names.

Among numbers any writing of `files.tables.NOTHING` is no value; among words Na and none are names.
"""


@dataclass(frozen=True)
class Encoded:
    """Columns as tensors.

    Args:
        schema: The value type of each column.
        tables: One mapping of columns per given table, (N,) or (N, c) each.
        vocabulary: For columns of words, the word of each id.
    """

    schema: dict[str, ValueType]
    tables: list[dict[str, Tensor]]
    vocabulary: dict[str, list[str]]


def encode(
    *tables: Mapping[str, Any],
    value_types: Mapping[str, ValueType] | None = None,
    files: Mapping[str, Sequence[str | Path]] | None = None,
) -> Encoded:
    """Columns of one or more tables of a data set (train and test, say) as tensors.

    The id of a word is its place in sorted order, over all tables together, so that it means the same
    in each.  By default words, whole numbers and truth values are ``"categorical"``, columns of 0 and 1
    side by side ``"multi_label"``, other numbers ``"continuous"``.

    Args:
        tables: Columns by name; the same names in each.
        value_types: The value types of columns for which this default is wrong.
        files: The files that columns are from, which errors name.

    Raises:
        ValueError: For columns that tables do not share, and for values that a value type does not
            allow, with a message that names column and row.
    """
    chosen = dict(value_types or {})
    names = list(tables[0])
    for other in tables[1:]:
        if set(other) != set(names):
            raise ValueError(f"train has the columns {sorted(names)}, test {sorted(other)}")
    for name, value_type in chosen.items():
        if name not in names:
            raise ValueError(f"value_types names {name!r}; the columns are {', '.join(names)}")
        one_of(f"the value_type of {name!r}", value_type, VALUE_TYPES)
    encoded = Encoded({}, [{} for _ in tables], {})
    for name in names:
        given = [table[name] for table in tables]
        with naming_files(*(files or {}).get(name, ())):
            columns, encoded.schema[name], words = _encode(name, given, chosen.get(name))
        encoded.vocabulary.update({} if words is None else {name: words})
        for table, column in zip(encoded.tables, columns, strict=True):
            table[name] = column
    return encoded


def _encode(
    name: str, given: list[Any], chosen: ValueType | None
) -> tuple[list[Tensor], ValueType, list[str] | None]:
    """A column of each table as a tensor, its value type and, if it holds words, the word of each id."""
    given = [_unmasked(column) for column in given]
    columns = [_read(name, column) for column in given]
    if any(isinstance(column, list) for column in columns):
        value_type = chosen or "categorical"
        columns, words = _encode_words(name, columns, value_type)
        if chosen is None and (nothing := [word for word in words if word in DOUBTFUL]):
            warnings.warn(
                f"column {name!r} has the class {nothing[0]!r}: leave a cell empty if it has no value, or"
                " declare the column categorical if that is a name",
                stacklevel=4,
            )
        return columns, value_type, words
    value_type = chosen or _value_type_of(columns, given)
    return [_typed(f"column {name!r}", c, value_type) for c in columns], value_type, None


def _typed(place: str, values: Tensor, value_type: ValueType) -> Tensor:
    """A column converted to its value type; numbers that need no change are not copied."""
    if value_type == "continuous" and values.dtype == torch.float32:
        return values
    return as_value_type(place, values, value_type, values.isnan())


def tensor_columns(metadata: Mapping[str, Any]) -> dict[str, Tensor]:
    """Metadata columns as tensors: tensors are unchanged, other columns are encoded by `encode`."""
    return columns_and_words(metadata)[0]


def columns_and_words(
    metadata: Mapping[str, Any],
) -> tuple[dict[str, Tensor], dict[str, list[str]]]:
    """`tensor_columns`, and the word of each id of those that were words."""
    encoded = encode({name: c for name, c in metadata.items() if not isinstance(c, Tensor)})
    (table,) = encoded.tables
    columns = {
        name: table[name] if name in table else real(column, f"column {name!r}")
        for name, column in metadata.items()
    }
    return columns, encoded.vocabulary


def variable_of(split: Any, name: str, value_type: ValueType | None = None) -> Variable:
    """A metadata column of a split.

    Args:
        split: A torch Dataset with ``metadata`` and, if it has words of class ids, a ``vocabulary``.
        name: The column.
        value_type: The value type in the data set's schema; None: whole numbers are class ids,
            others numbers.

    Raises:
        ValueError: If there is no such column.
    """
    columns, words = columns_and_words(choose(split.metadata, [name], "the data set"))
    values = columns[name]
    value_type = value_type or ("continuous" if values.is_floating_point() else "categorical")
    vocabulary: Mapping[str, Sequence[str]] = {**words, **getattr(split, "vocabulary", {})}
    return Variable(values, value_type, vocabulary.get(name, ()))


def class_ids(metadata: Mapping[str, Any], name: str) -> Tensor:
    """(N,) the class ids of a metadata column; -1 where one is missing.

    Raises:
        ValueError: If there is no such column, or it holds something else.
    """
    column = tensor_columns(choose(metadata, [name], "the data set"))[name]
    if column.is_floating_point() or column.ndim != 1:
        raise ValueError(
            f"column {name!r} holds {column.dtype} of shape {tuple(column.shape)}, not class ids: (N,)"
            " whole numbers"
        )
    return column.long()


def factorize(words: Sequence[str | None], vocabulary: Sequence[str]) -> Tensor:
    """(N,) the place of each word in a vocabulary; -1 for None and the empty word."""
    places = {word: i for i, word in enumerate(vocabulary)}
    return torch.tensor([places[word] if word else -1 for word in words], dtype=torch.long)


def _encode_words(
    name: str, columns: list[Any], value_type: ValueType
) -> tuple[list[Tensor], list[str]]:
    """The class ids of columns of words, and the word of each id."""
    if value_type != "categorical":
        raise ValueError(f"column {name!r} holds words: it is categorical, not {value_type}")
    for column in columns:
        if isinstance(column, Tensor) and not column.isnan().all():
            raise ValueError(f"column {name!r} holds words in one split and numbers in the other")
    words = [c if isinstance(c, list) else [None] * len(c) for c in columns]
    vocabulary = sorted({word for column in words for word in column if word})
    _warn_of_near_duplicates(name, vocabulary)
    return [factorize(column, vocabulary) for column in words], vocabulary


def _warn_of_near_duplicates(name: str, vocabulary: Sequence[str]) -> None:
    """Warn of words that differ only in case, blanks or the form of letters."""
    by_letters: dict[str, list[str]] = {}
    for word in vocabulary:
        letters = unicodedata.normalize("NFKC", word).casefold()
        by_letters.setdefault(" ".join(letters.split()), []).append(word)
    if several := [words for words in by_letters.values() if len(words) > 1]:
        warnings.warn(
            f"column {name!r} has words that differ only in case, blanks or the form of letters "
            f"but are different classes, such as {' and '.join(map(repr, several[0]))}; "
            f"{len(several)} such groups"
            " in all",
            stacklevel=5,
        )


def _unmasked(values: Any) -> Any:
    """Values; a list with None for missing ones if their place is kept beside the values."""
    if np.ma.is_masked(values):
        return values.tolist()
    if hasattr(values, "notna") and not isinstance(values.dtype, np.dtype):  # of pandas
        known = values.notna()
        if not known.all():
            pairs = zip(values.tolist(), known, strict=True)
            return [value if is_known else None for value, is_known in pairs]
    return values


def _read(name: str, values: Any) -> Any:
    """A list of words, or a tensor: bool, long, or float with NaN for missing values."""
    if getattr(values, "ndim", 1) == 0:
        raise ValueError(f"column {name!r} is one value, and must have a row per sample")
    if isinstance(values, Tensor):
        return real(values, f"column {name!r}")
    if hasattr(values, "dtype"):  # numpy's arrays, and the columns of data frames
        array = np.asarray(values)
        if array.dtype.kind in NUMBERS:
            return from_numpy(array, f"column {name!r}")
        values = array.tolist()
    values = list(values)
    if not any(isinstance(value, str) for value in values):
        return _numbers(name, values)
    for row, value in enumerate(values):
        # NaN alone differs from itself.
        if not (isinstance(value, str) or value is None or value != value):
            raise ValueError(f"column {name!r} holds words, but {value!r} in row {row} (from 0)")
    return [value if isinstance(value, str) else None for value in values]


def _numbers(name: str, values: list[Any]) -> Tensor:
    """Numbers, or lists of equally many numbers, as a tensor."""
    for row, value in enumerate(values):
        if isinstance(value, bytes):
            raise ValueError(
                f"column {name!r} holds bytes in row {row} (from 0): decode them to words"
            )
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise ValueError(beyond(f"column {name!r}", value))
    lengths = [len(value) if isinstance(value, Sequence) else None for value in values]
    first = lengths[0] if lengths else None
    for row, length in enumerate(lengths):
        if length != first:
            raise ValueError(
                f"column {name!r} has rows of different lengths: {first or 1} numbers in row 0,"
                f" {length or 1} in row {row} (from 0)"
            )
    filled = [float("nan") if value is None else value for value in _flat(values)]
    try:
        numbers = torch.as_tensor(np.asarray(filled))
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} holds neither numbers nor words: {error}") from error
    numbers = real(numbers, f"column {name!r}")
    return numbers if first is None else numbers.reshape(len(values), first, *numbers.shape[1:])


def _flat(values: Sequence[Any]) -> list[Any]:
    """The numbers of a list, or of a list of lists."""
    if values and isinstance(values[0], Sequence):
        return [value for row in values for value in row]
    return list(values)


def _value_type_of(columns: list[Tensor], given: list[Any]) -> ValueType:
    """The default value type of numbers, from tensors and the columns that they were read from."""
    held = [pair for pair in zip(columns, given, strict=True) if not _is_empty(pair[1])]
    if not held or not all(_are_whole(*pair) for pair in held):
        return "continuous"
    flat = all(column.ndim == 1 for column in columns)
    binary = all(((column == 0) | (column == 1) | column.isnan()).all() for column in columns)
    return "multi_label" if binary and not flat else "categorical"


def _is_empty(given: Any) -> bool:
    """Whether a list holds no value, such as the column of a split in which every cell is empty."""
    return isinstance(given, list | tuple) and all(value is None for value in _flat(given))


def _are_whole(column: Tensor, given: Any) -> bool:
    """Whether a column holds whole numbers; a list with None becomes floats even if it does."""
    if not column.is_floating_point():
        return True
    values = [v for v in _flat(given) if v is not None] if isinstance(given, list | tuple) else []
    return bool(values) and all(isinstance(value, int) for value in values)

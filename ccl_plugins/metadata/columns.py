"""Metadata columns: what a column holds, and words as numbers in one place.

A column is a tensor, a numpy array, a list of numbers or a list of words, one row per sample.  What is
missing is None, NaN or an empty word; encoded it is -1 among class ids and NaN among numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.tables import choose

if TYPE_CHECKING:
    from ccl_plugins.protocols import ValueType

VALUE_TYPES = ("categorical", "multi_label", "continuous")


@dataclass(frozen=True)
class Encoded:
    """Columns as tensors.

    Args:
        schema: The value type of each column.
        tables: One mapping of columns per table given, (N,) or (N, c) each.
        vocabulary: For columns of words, the word of each id.
    """

    schema: dict[str, ValueType]
    tables: list[dict[str, Tensor]]
    vocabulary: dict[str, list[str]]


def encode(
    *tables: Mapping[str, Any], value_types: Mapping[str, ValueType] | None = None
) -> Encoded:
    """Columns of one or more tables of a data set (train and test, say) as tensors.

    Words become their place in sorted order, over all tables together, so that an id means the same
    word in each.  Without a given value type, words, whole numbers and truth values are
    ``"categorical"``, columns of 0 and 1 side by side ``"multi_label"``, other numbers ``"continuous"``.

    Args:
        tables: Columns by name; the same names in each.
        value_types: The value type of some columns, where it is another.

    Raises:
        ValueError: For columns that tables do not share, and for values that a value type does not
            allow, naming column and row.
    """
    chosen = dict(value_types or {})
    names = list(tables[0])
    for other in tables[1:]:
        if set(other) != set(names):
            raise ValueError(f"train has the columns {sorted(names)}, test {sorted(other)}")
    for name, value_type in chosen.items():
        if name not in names:
            raise ValueError(f"value_types names {name!r}; the columns are {', '.join(names)}")
        if value_type not in VALUE_TYPES:
            raise ValueError(
                f"{name!r} has value_type {value_type!r}; there are {', '.join(VALUE_TYPES)}"
            )
    encoded = Encoded({}, [{} for _ in tables], {})
    for name in names:
        columns = [_read(name, table[name]) for table in tables]
        if any(isinstance(column, list) for column in columns):
            _encode_words(encoded, name, columns, chosen.get(name))
            continue
        whole = all(_are_whole(table[name], c) for table, c in zip(tables, columns, strict=True))
        value_type = chosen.get(name) or _value_type_of(columns, whole)
        encoded.schema[name] = value_type
        for table, column in zip(encoded.tables, columns, strict=True):
            table[name] = _as_value_type(name, column, value_type)
    return encoded


def tensor_columns(metadata: Mapping[str, Any]) -> dict[str, Tensor]:
    """Metadata columns as tensors: tensors as they are, the rest as `encode` gives them."""
    rest = {name: c for name, c in metadata.items() if not isinstance(c, Tensor)}
    encoded = encode(rest).tables[0]
    return {name: encoded.get(name, column) for name, column in metadata.items()}


def class_ids(metadata: Mapping[str, Any], name: str) -> Tensor:
    """(N,) the class ids of a metadata column; -1 where one is missing.

    Raises:
        ValueError: For a column that is not there, or that holds something else.
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
    encoded: Encoded, name: str, columns: list[Any], value_type: ValueType | None
) -> None:
    if value_type not in (None, "categorical"):
        raise ValueError(f"column {name!r} holds words: it is categorical, not {value_type}")
    for column in columns:
        if isinstance(column, Tensor) and not column.isnan().all():
            raise ValueError(f"column {name!r} holds words in one split and numbers in the other")
    words = [c if isinstance(c, list) else [None] * len(c) for c in columns]
    vocabulary = sorted({word for column in words for word in column if word})
    encoded.schema[name] = "categorical"
    encoded.vocabulary[name] = vocabulary
    for table, column in zip(encoded.tables, words, strict=True):
        table[name] = factorize(column, vocabulary)


def _read(name: str, values: Any) -> Any:
    """A list of words, or a tensor: bool, long, or float with NaN where something is missing."""
    if isinstance(values, Tensor):
        return values
    if hasattr(values, "dtype"):  # numpy's arrays, and the columns of data frames
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            kind = array.dtype.kind
            return torch.from_numpy(array.astype(np.int64 if kind in "iu" else array.dtype))
        values = array.tolist()
    values = list(values)
    are_words = [isinstance(value, str) for value in values]
    if any(are_words):
        for row, (value, word) in enumerate(zip(values, are_words, strict=True)):
            if not word and not _is_missing(value):
                raise ValueError(f"column {name!r} holds words, but {value!r} in row {row}")
        return [value if word else None for value, word in zip(values, are_words, strict=True)]
    return _numbers(name, values)


def _numbers(name: str, values: list[Any]) -> Tensor:
    first = len(values[0]) if values and isinstance(values[0], Sequence) else None
    for row, value in enumerate(values):
        length = len(value) if isinstance(value, Sequence) else None
        if length != first:
            raise ValueError(
                f"column {name!r} has rows of different lengths: {first or 1} numbers in row 0,"
                f" {length or 1} in row {row}"
            )
    flat = [v for row in values for v in row] if first is not None else values
    filled = [float("nan") if value is None else value for value in flat]
    try:
        numbers = torch.as_tensor(np.asarray(filled))
        return numbers if first is None else numbers.reshape(len(values), first, *numbers.shape[1:])
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} holds neither numbers nor words: {error}") from error


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # NaN alone differs from itself


def _are_whole(values: Any, column: Tensor) -> bool:
    """Whether a column is of whole numbers; in a list, which are floats for a None among them."""
    if not column.is_floating_point():
        return True
    if not isinstance(values, list | tuple):
        return False
    flat = [v for row in values for v in row] if column.ndim > 1 else values
    there = [value for value in flat if value is not None]
    return bool(there) and all(isinstance(value, int) for value in there)


def _value_type_of(columns: list[Tensor], whole: bool) -> ValueType:
    if not whole:
        return "continuous"
    flat = all(column.ndim == 1 for column in columns)
    binary = all(((column == 0) | (column == 1) | column.isnan()).all() for column in columns)
    return "multi_label" if binary and not flat else "categorical"


def _as_value_type(name: str, column: Tensor, value_type: ValueType) -> Tensor:
    if value_type == "continuous":
        return column.float()
    missing = column.isnan()
    if value_type == "multi_label":
        _refuse(name, column, (column != 0) & (column != 1) & ~missing, "multi_label is 0 or 1")
        return column.float()
    if column.is_floating_point():
        _refuse(name, column, (column != column.round()) & ~missing, "class ids are whole numbers")
    return torch.where(missing, -1, column.nan_to_num() if missing.any() else column).long()


def _refuse(name: str, column: Tensor, bad: Tensor, rule: str) -> None:
    rows = bad.reshape(len(bad), -1).any(1).nonzero().flatten().tolist()
    if rows:
        value = column[rows[0]][bad[rows[0]]].flatten()[0].item()
        raise ValueError(f"column {name!r} holds {value!r} in row {rows[0]}: {rule}")

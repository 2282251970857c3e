"""Attributes as columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.metadata import encode
from ccl_plugins.missing import missing_entries


def binary_columns(
    attributes: Mapping[str, Any], vocabulary: Mapping[str, Sequence[str]]
) -> dict[str, Tensor]:
    """Discrete attributes as 0/1 columns (N,) float32, NaN where a value is missing.

    A column of 0 and 1 stays what it is.  Another, and one of words, becomes one for each value, in
    sorted order, called ``name=value``.  Columns side by side, (N, c), are taken one by one, called
    ``name[i]``.

    Args:
        attributes: Tensors, arrays or lists by name, one row per sample; missing is -1, NaN, None or
            an empty word.
        vocabulary: For columns of class ids, the word of each.

    Raises:
        ValueError: For numbers that are not whole, or words among them, naming column and row.
    """
    found: dict[str, Tensor] = {}
    for name, values in attributes.items():
        encoded = encode({name: values})
        words = encoded.vocabulary.get(name) or vocabulary.get(name)
        column = encoded.tables[0][name]
        if column.ndim == 1:
            found |= _one_per_value(name, column, words)
        else:
            for i, each in enumerate(column.T):
                found |= _one_per_value(f"{name}[{i}]", each, words)
    return found


def _one_per_value(name: str, column: Tensor, words: Sequence[str] | None) -> dict[str, Tensor]:
    missing = missing_entries(column, "categorical")
    there = column[~missing].double()
    odd = (there != there.round()).nonzero().flatten()
    if len(odd):
        row = int((~missing).nonzero().flatten()[odd[0]])
        raise ValueError(
            f"attribute {name!r} has {column[row].item():g} in row {row}: attributes are discrete;"
            " take condition column or clusters for real numbers"
        )
    values = there.unique().long().tolist()
    gone = torch.where(missing, torch.nan, 0.0)
    if words is None and set(values) <= {0, 1}:
        return {name: (column == 1).float() + gone}
    return {
        f"{name}={words[value] if words else value}": (column == value).float() + gone
        for value in values
    }

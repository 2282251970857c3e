"""Where attributes are read: a table in a file, or an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins.conditions.arrays import read_array
from ccl_plugins.matching import read_rows, require_rows


def from_file(file: Path, key: str | None, split: Any) -> dict[str, Any]:
    """The columns of a file, a row for each sample of a split.

    Args:
        file: ``.csv``, ``.parquet``, ``.npy`` or ``.safetensors``.
        key: The column that names the samples; None: row i is sample i.
        split: A torch Dataset with ``metadata``.

    Raises:
        ValueError: For a file that does not fit the split.
    """
    if file.suffix in (".npy", ".safetensors"):
        return from_array(read_array(file), split, str(file))
    return read_rows(file, key, split)


def from_array(array: Tensor, split: Any, place: str) -> dict[str, Any]:
    """The columns of an array (N, A), called ``"0"``, ``"1"``, ...

    Raises:
        ValueError: For another shape.
    """
    if array.ndim != 2:
        raise ValueError(f"{place} must be (N, A), not of shape {tuple(array.shape)}")
    require_rows(len(array), split, place)
    return {str(i): column for i, column in enumerate(array.T)}

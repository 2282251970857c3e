"""Arrays of numbers, from files and from the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.files.tensors import read_tensors

NUMBERS = "biuf"
"""numpy's kinds of types that hold numbers."""


def read_array(path: Path) -> Tensor:
    """The array of a ``.npy`` file; or a ``.safetensors`` file's ``values``, or its only tensor.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, holds no array of numbers, or holds several tensors.
    """
    if path.suffix == ".npy":
        return read_npy(path)
    tensors, _ = read_tensors(path)
    if "values" not in tensors and len(tensors) != 1:
        raise ValueError(f"{path} must hold one tensor, or one called 'values', not {[*tensors]}")
    return tensors.get("values", next(iter(tensors.values())))


def read_npy(path: str | Path) -> Tensor:
    """The array of a ``.npy`` file; whole numbers as long.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is truncated or another kind of file, or holds words or Python objects.
    """
    path = Path(path).expanduser()
    if path.suffix != ".npy":
        raise ValueError(f"an array's file must end in .npy, not as {path.name!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is no array of numbers: {error}") from error
    if array.dtype.kind not in NUMBERS:
        raise ValueError(f"{path} is no array of numbers: its values are of type {array.dtype}")
    return from_numpy(array)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A copy of an array of numbers; whole numbers as long, since torch lacks some of their types."""
    return torch.from_numpy(array.astype(np.int64 if array.dtype.kind in "iu" else array.dtype))


def as_numbers(values: Any, name: str) -> Tensor:
    """An array, list or tensor from the user as a tensor.

    Raises:
        ValueError: For words, and rows of different lengths.
    """
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, not {values!r:.80}: {error}") from error

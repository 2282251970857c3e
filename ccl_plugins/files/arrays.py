"""Arrays of numbers, in files and as a user gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def read_npy(path: str | Path) -> Tensor:
    """The array in a ``.npy`` file; whole numbers as long.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is another file or truncated, or holds words or Python objects.
    """
    path = Path(path)
    if path.suffix != ".npy":
        raise ValueError(f"an array's file must end in .npy, not as {path.name!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is no array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path} is no array of numbers: its values are of type {array.dtype}")
    return torch.from_numpy(array.astype(np.int64) if array.dtype.kind in "iu" else array)


def as_numbers(values: Any, name: str) -> Tensor:
    """A user's array, list or tensor as a tensor.

    Raises:
        ValueError: For words, and rows of different lengths.
    """
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, not {values!r:.80}: {error}") from error

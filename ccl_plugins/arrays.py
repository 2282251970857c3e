"""Arrays in files: numpy's and safetensors'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def read_array(path: str | Path) -> Tensor:
    """The array in a ``.npy`` file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no array, is truncated, or holds Python objects.
    """
    path = _existing(path, ".npy")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is no readable array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds values of type {array.dtype}, not numbers")
    return torch.from_numpy(array.astype(np.int64) if array.dtype.kind in "iu" else array)


def read_arrays(path: str | Path) -> dict[str, Tensor]:
    """The tensors in a ``.safetensors`` file, by name.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is none of that format, or truncated.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = _existing(path, ".safetensors")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is no readable safetensors file: {error}") from error


def _existing(path: str | Path, ending: str) -> Path:
    path = Path(path)
    if path.suffix != ending:
        raise ValueError(f"the file must end in {ending}, not as {path.name!r}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    return path

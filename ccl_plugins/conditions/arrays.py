"""Arrays in files that a user brings."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from ccl_plugins import tensor_files
from ccl_plugins.arrays import read_npy


def read_array(path: Path) -> Tensor:
    """The array of a ``.npy`` file, or the only tensor of a ``.safetensors`` file or its ``values``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: For a damaged file, objects that only pickle could read, or several tensors.
    """
    if path.suffix == ".npy":
        return read_npy(path)
    tensors, _ = tensor_files.read(path)
    name = "values" if "values" in tensors else next(iter(tensors), "")
    if not tensors or (name != "values" and len(tensors) > 1):
        raise ValueError(f"{path} must hold one tensor, or one called 'values', not {[*tensors]}")
    return tensors[name]

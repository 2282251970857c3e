"""The idx format, in which MNIST and its like come."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import torch
from torch import Tensor

UNSIGNED_BYTES = 8


def find_idx(folder: str | Path, stem: str, ndim: int) -> Path:
    """The file of a part of MNIST, packed or not: ``train-images-idx3-ubyte.gz``.

    Raises:
        FileNotFoundError: If it is not there, saying under which names it was looked for.
    """
    names = [
        f"{stem}{mark}idx{ndim}-ubyte{packed}" for mark in ("-", ".") for packed in ("", ".gz")
    ]
    for name in names:
        if (path := Path(folder) / name).is_file():
            return path
    raise FileNotFoundError(f"there is none of {', '.join(names)} in {str(folder)!r}")


def read_idx(path: str | Path) -> Tensor:
    """The array of bytes in an idx file, uint8.

    Args:
        path: The file; one that ends in ``.gz`` is unpacked.

    Raises:
        ValueError: If the file is not idx, holds no bytes, or is truncated or too long.
    """
    path = Path(path)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error
    # Two zeros, the type of the values, the number of dimensions; then each as 4 bytes, large first.
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTES:
        raise ValueError(f"{path} is no idx file of bytes: it begins with {content[:4].hex(' ')}")
    start = 4 + 4 * content[3]
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) != start + math.prod(shape):
        raise ValueError(
            f"{path} has {len(content)} bytes, and its shape {tuple(shape)} needs"
            f" {start + math.prod(shape)}: it is damaged"
        )
    if not math.prod(shape):
        raise ValueError(f"{path} is empty: its shape is {tuple(shape)}")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=start).reshape(shape)

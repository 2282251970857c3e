"""Small image files for tests of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def write_image(path: Path, shade: int = 0, mode: str = "RGB", size: int = 8) -> Path:
    """An image of one shade."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (size, size), shade if mode in ("L", "I;16") else (shade,) * len(mode)).save(
        path
    )
    return path


def truncate(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-60])
    return path


def numbers(shape: Any, dtype: Any, seed: int = 0) -> np.ndarray:
    """Numbers from the least to the greatest of a type."""
    r, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "f":
        return r.normal(size=shape).astype(dtype)
    ends = np.iinfo(dtype)
    return r.integers(ends.min, ends.max, shape, dtype=dtype, endpoint=True)

"""Fingerprints: short strings that differ if weights or images differ."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

SAMPLED = 256
"""The number of images read from a split that is neither in memory nor in files of known paths."""


def of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        _add(digest, name, tensors[name])
    return digest.hexdigest()


def of_split(split: Any) -> str:
    """The SHA-256 that identifies the images of a split, in their order.

    It is what the split's method ``fingerprint`` returns, if it has one.  Else it covers every pixel of a
    split in memory (``images``); path, size and time of change of every file of a split in files
    (``paths``, or ``samples`` as in torchvision); and 256 evenly spaced images of any other.
    """
    if hasattr(split, "fingerprint"):
        return str(split.fingerprint())
    images = getattr(split, "images", None)
    if isinstance(images, Tensor) and len(images) == len(split):
        return of_tensors({"images": images})
    digest = hashlib.sha256(str(len(split)).encode())
    paths = _paths(split)
    if paths is not None:
        for path in paths:
            found = os.stat(path)
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
        return digest.hexdigest()
    for i in torch.linspace(0, len(split) - 1, min(SAMPLED, len(split))).long().tolist():
        _add(digest, str(i), _pixels(split[i][0]))
    return digest.hexdigest()


def _add(digest: Any, name: str, tensor: Tensor) -> None:
    digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
    digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _paths(split: Any) -> list[str] | None:
    """The files of a split's images, or None where it does not name them."""
    paths = getattr(split, "paths", None)
    pairs = getattr(split, "samples", None)
    if paths is None and isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs):
        paths = [pair[0] for pair in pairs]
    if paths is None or len(paths) != len(split) or not len(paths):
        return None
    return list(paths) if all(isinstance(path, str | os.PathLike) for path in paths) else None


def _pixels(image: Any) -> Tensor:
    if isinstance(image, Tensor):
        return image
    import numpy as np

    return torch.from_numpy(np.array(image))

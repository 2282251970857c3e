"""Checkpoints: weights and plain data in one file with a checksum, read without pickle.

The file is a zip file of torch.  Its comment, which other readers skip, is the SHA-256 of all bytes
before the comment: torch itself does not check files, and reads wrong values from a file with a
wrong bit.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections import OrderedDict
from collections.abc import Mapping
from importlib import metadata
from io import BufferedRandom
from pathlib import Path
from typing import Any

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.sums import DamagedFile

SEAL = b"sha256:"
SEAL_SIZE = len(SEAL) + hashlib.sha256().digest_size * 2


def write_checkpoint(path: Path, data: Mapping[str, Any]) -> None:
    """Write plain data and tensors to a file, atomically.

    Args:
        path: The file.
        data: Numbers, strings, booleans, None and tensors in lists, tuples and dicts.

    Raises:
        TypeError: For data that only pickle could write; the message names its place.
        OSError: If the file cannot be written, such as on a full disk; an older file stays whole.
    """
    import torch

    require_plain(data, "")
    with atomic_write(path) as temporary, temporary.open("w+b") as file:
        try:
            torch.save(data, file)
            _seal(file)
        except RuntimeError as error:
            # torch's writer hides the system's error of a failed write.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a file of `write_checkpoint`, with tensors on the CPU.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If any bit has changed since it was written, or it is not a checkpoint.
    """
    import torch

    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        _check_seal(path)
        data = torch.load(path, map_location="cpu", weights_only=True)
    # The type of torch's error depends on the damaged place: zip reader, unpickler and others.
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        if type(error).__name__ == "UnpicklingError":  # torch's message suggests weights_only=False
            reason = "it holds more than plain data and tensors"
        raise DamagedFile(
            f"the checkpoint {path} is damaged ({path.stat().st_size} bytes): {reason}"
        ) from error
    if not isinstance(data, dict):
        raise DamagedFile(f"{path} is no checkpoint: it holds a {type(data).__name__}")
    return data


def _seal(file: BufferedRandom) -> None:
    """Append the checksum of a zip file without comment as its comment."""
    file.seek(-2, os.SEEK_END)  # where a zip file has the length of its comment
    file.write(SEAL_SIZE.to_bytes(2, "little"))
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256")
    file.seek(0, os.SEEK_END)
    file.write(SEAL + digest.hexdigest().encode())


def _check_seal(path: Path) -> None:
    digest, left = hashlib.sha256(), path.stat().st_size - SEAL_SIZE
    with path.open("rb") as file:
        while left > 0 and (read := file.read(min(left, 2**20))):
            digest.update(read)
            left -= len(read)
        if file.read() != SEAL + digest.hexdigest().encode():
            raise ValueError("its content does not have its checksum")


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on."""
    names = ("ccl-plugins", "lightly", "pytorch-lightning", "timm", "torch", "torchvision")
    return {name: _version(name) for name in names}


_version = functools.cache(metadata.version)  # each look-up parses a file of some kilobytes


def require_plain(data: Any, place: str) -> None:
    """Check that a checkpoint can hold data at a place.

    Raises:
        TypeError: For data that only pickle could write; the message names its place.
    """
    import torch

    kind = type(data)
    if kind in (dict, OrderedDict):
        for key, value in data.items():
            if type(key) not in (str, int):
                raise TypeError(
                    f"the key {key!r} at {place or 'the top'} of a checkpoint is not plain"
                )
            require_plain(value, f"{place}/{key}")
    elif kind in (list, tuple):
        for i, value in enumerate(data):
            require_plain(value, f"{place}/{i}")
    elif not (data is None or kind in (bool, int, float, str) or isinstance(data, torch.Tensor)):
        raise TypeError(
            f"{place} of a checkpoint is a {kind.__module__}.{kind.__qualname__}, which only pickle"
            " could write; numbers, strings and tensors in lists and dicts are right"
        )

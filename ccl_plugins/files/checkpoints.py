"""Files of weights and plain data: written whole or not at all, and read without pickle."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO


class DamagedCheckpoint(ValueError):
    """A checkpoint that cannot be read: truncated, overwritten, or no checkpoint at all."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of another when it is whole and on the disk.

    It has another name until then.  Where writing fails it is deleted, and what was there stays.

    Raises:
        OSError: Naming the file, where it cannot be written, as on a full disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:
        # torch's writer fails at its end for what a write said, in an error of another type.
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        said = f"{cause.strerror}: could not be written, and what was there before is whole"
        raise OSError(cause.errno, said, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_checkpoint(path: Path, data: Mapping[str, Any]) -> None:
    """Write plain data and tensors to a file, which at no time is there in part.

    Args:
        path: The file.
        data: Numbers, strings, booleans, None and tensors in lists, tuples and dicts.

    Raises:
        TypeError: For data that only pickle could write, naming its place.
        OSError: Where it cannot be written, as on a full disk; what was there is left whole.
    """
    import torch

    _require_plain(data, "")
    with replacing(path) as file:
        torch.save(data, file)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `write` wrote, tensors on the CPU.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedCheckpoint: If it is truncated or otherwise no such file.
    """
    import torch

    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    # What torch raises depends on where a file is damaged: from the zip reader to the unpickler.
    except Exception as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        if type(error).__name__ == "UnpicklingError":  # whose words recommend weights_only=False
            said = "it holds more than plain data and tensors, or no such data at all"
        raise DamagedCheckpoint(
            f"the checkpoint {path} is damaged ({path.stat().st_size} bytes): {said}"
        ) from error
    if not isinstance(data, dict):
        raise DamagedCheckpoint(f"{path} is no checkpoint: it holds a {type(data).__name__}")
    return data


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on."""
    names = ("ccl-plugins", "lightly", "pytorch-lightning", "timm", "torch", "torchvision")
    return {name: metadata.version(name) for name in names}


def _require_plain(data: Any, place: str) -> None:
    import torch

    kind = type(data)
    if kind in (dict, OrderedDict):
        for key, value in data.items():
            if type(key) not in (str, int):
                raise TypeError(
                    f"the key {key!r} at {place or 'the top'} of a checkpoint is not plain"
                )
            _require_plain(value, f"{place}/{key}")
    elif kind in (list, tuple):
        for i, value in enumerate(data):
            _require_plain(value, f"{place}/{i}")
    elif not (data is None or kind in (bool, int, float, str) or isinstance(data, torch.Tensor)):
        raise TypeError(
            f"{place} of a checkpoint is a {kind.__module__}.{kind.__qualname__}, which only pickle"
            " could write; numbers, strings and tensors in lists and dicts are right"
        )


def _sync_folder(folder: Path) -> None:
    """Bring a renaming to the disk, where the system can."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

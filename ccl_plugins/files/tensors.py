"""Tensors in safetensors files: written whole or not at all, and what is damaged is noticed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins.files.fingerprints import of_tensors

CHECKSUM = "sha256"


class DamagedFile(ValueError):
    """A file of tensors that is truncated, changed, or none at all."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a file, which at no time is there in part.

    Of several processes that write at once, the last one's file stays.

    Args:
        path: The file; its folder is made.
        tensors: By name.
        metadata: Words kept beside them.
    """
    from safetensors.torch import save_file

    near = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        save_file(near, partial, {**metadata, CHECKSUM: of_tensors(near)})
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, on the CPU, and the words beside them.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it cannot be read, or is not what `write` wrote.
    """
    with _opened(path) as file:
        metadata = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no dict
    # A file that someone else wrote has no checksum.
    if metadata.pop(CHECKSUM, None) not in (None, of_tensors(tensors)):
        raise DamagedFile(f"{path} is damaged: its tensors are not those that were written")
    return tensors, metadata


def read_tensor_metadata(path: Path) -> dict[str, str]:
    """The words of a file, without its tensors.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it cannot be read.
    """
    with _opened(path) as file:
        return dict(file.metadata() or {})


def read_tensor_shape(path: Path, name: str) -> tuple[int, ...]:
    """The shape of a file's tensor, which is not read.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it cannot be read, or has no such tensor.
    """
    with _opened(path) as file:
        return tuple(file.get_slice(name).get_shape())


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise DamagedFile(f"{path} is damaged ({path.stat().st_size} bytes): {error}") from error

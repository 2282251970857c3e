"""Tensors in safetensors files, with a checksum that shows damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.fingerprints import of_tensors
from ccl_plugins.files.mapped import is_large, map_safetensors
from ccl_plugins.files.messages import printable
from ccl_plugins.files.reading import reading
from ccl_plugins.files.sums import DamagedFile

CHECKSUM = "sha256"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to a safetensors file, atomically, with a checksum.

    Args:
        path: The file; its folder is created.
        tensors: By name; no two share memory.
        metadata: Words to keep with them.

    Raises:
        OSError: If the file cannot be written, such as on a full disk; an older file stays whole.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    near = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_write(path) as temporary:
        try:
            save_file(near, temporary, {**metadata, CHECKSUM: _checksum(near, metadata)})
        except SafetensorError as error:  # for a failed write too
            raise OSError(str(error)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, on the CPU, and its metadata.

    Tensors are copies; larger ones than 64 MB stay in the file, see `ccl_plugins.files.mapped`.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it cannot be read, or its checksum does not match its tensors.
    """
    with _opened(path) as file:
        metadata = dict(file.metadata() or {})
        mapped = map_safetensors(path) if is_large(path.stat().st_size) else None
        tensors = mapped or {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    # Files of other programs have no checksum.
    stored = metadata.pop(CHECKSUM, None)
    if stored is not None and stored != _checksum(tensors, metadata):
        raise DamagedFile(f"{path} is damaged: its content does not have its checksum")
    return tensors, metadata


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    words = json.dumps(dict(metadata), sort_keys=True)
    return hashlib.sha256(f"{of_tensors(tensors)}{words}".encode()).hexdigest()


def read_header(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """The shapes of a safetensors file's tensors, which are not read, and its metadata.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFile: If it cannot be read.
    """
    with _opened(path) as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        return shapes, dict(file.metadata() or {})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    with reading(path, "file of tensors"):
        try:
            with safe_open(path, framework="pt") as file:
                yield file
        except (SafetensorError, OSError) as error:
            size = path.stat().st_size
            raise DamagedFile(
                f"{path} is damaged ({size} bytes): {printable(str(error))}"
            ) from error

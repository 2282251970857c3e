"""Atomic writes: a file appears under its name when it is whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and move the file to ``path`` once it is on the disk.

    Temporary names are unique: if several processes write one file, the last one's stays.  If writing
    fails, the temporary file is deleted and ``path`` keeps its content.

    Args:
        path: The file; its folder is created.

    Raises:
        OSError: If the file cannot be written, as on a full disk; the error names ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        reason = f"{error.strerror or error}: could not be written, and its old content is whole"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring a new name in a folder to the disk; only POSIX systems can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Atomic writes: a file appears under its name when it is whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

PARTIAL = ".partial"
_PRIVATE = re.compile(r"\.(.+\.[0-9a-f]{8}|[0-9a-f]{16})\.partial")
"""The names of private folders."""


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and move the file to ``path`` once it is on the disk.

    If several processes write one file, the last one's stays. If writing fails, the temporary file
    is deleted and ``path`` keeps its content. Temporary files of killed processes are deleted from
    the folder.

    Args:
        path: The file; its folder is created.

    Raises:
        OSError: If the file cannot be written, such as on a full disk; the error names ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        delete_abandoned(path.parent)
        with _private_folder(path) as folder:
            temporary = folder / path.name
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError as error:
        reason = f"{error.strerror or error}: could not be written; its old content is unchanged"
        raise OSError(error.errno, reason, str(path)) from error
    sync_folder(path.parent)


@contextlib.contextmanager
def replacing(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder, and move its files into ``folder`` once all of them are on the disk.

    If writing fails, or the process is killed, ``folder`` keeps its files.  If it is killed while
    files are moved, the last of ``names`` is missing: let this be the file with the others'
    checksums.

    Args:
        folder: The folder; it is created.
        names: The names of all files that may be written; files that are not written are deleted
            from ``folder``.

    Raises:
        OSError: If the files cannot be written, such as on a full disk; the error names ``folder``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    *others, last = names
    try:
        delete_abandoned(folder)
        with _private_folder(folder / "files") as staged:
            yield staged
            for name in names:
                if (staged / name).exists():
                    with (staged / name).open("rb+") as file:
                        os.fsync(file.fileno())
            (folder / last).unlink(missing_ok=True)
            for name in (*others, last):
                if (staged / name).exists():
                    os.replace(staged / name, folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        reason = f"{why}: could not be written; its old files are unchanged"
        raise OSError(error.errno, reason, str(folder)) from error
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Write a new name in a folder to the disk; only possible on POSIX systems."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete_abandoned(folder: Path) -> None:
    """Delete the temporary files that processes which were killed left in a folder."""
    for left in abandoned(folder):
        lock = _lock(left)
        try:
            lock.acquire(blocking=False)
        except OSError:  # the folder is in use, or there is none
            continue
        _delete(left, lock)


def abandoned(folder: Path) -> list[Path]:
    """The private folders of writers in a folder, among them those of processes that were killed."""
    there = folder.glob(f".*{PARTIAL}")
    return [
        each
        for each in there
        if _PRIVATE.fullmatch(each.name) and each.is_dir() and not each.is_symlink()
    ]


@contextlib.contextmanager
def _private_folder(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` with a lock, which distinguishes it from folders of killed processes.

    Writers such as safetensors may need further files beside the one that they write.
    """
    while True:
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        folder.mkdir()
        lock = _lock(folder)
        try:
            lock.acquire(blocking=False)
            break
        except (TimeoutError, FileNotFoundError, FileExistsError):
            continue  # another process took it for an abandoned folder
        except OSError:
            break  # the file system has no locks
    try:
        yield folder
    finally:
        _delete(folder, lock)


def _lock(folder: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(folder / ".lock", fallback_to_soft=False)


def _delete(folder: Path, lock: BaseFileLock) -> None:
    """Delete a folder whose lock is held.

    The folder is renamed first, because a writer that has just made it could otherwise lock a new
    file in the folder that is being deleted.
    """
    with contextlib.suppress(OSError):
        folder = folder.rename(folder.with_name(f".{secrets.token_hex(8)}{PARTIAL}"))
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    shutil.rmtree(folder, ignore_errors=True)  # NFS keeps the name of an open file

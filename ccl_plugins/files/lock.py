"""The lock of a folder: one process at a time writes there."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_registry.errors import Mistake

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
MARKER = ".lock.marker"
"""The file that replaces `LOCK` on a file system without locks."""

OWNER = ".lock.owner"
PATIENCE = 1.0
"""Seconds to wait for a process that only asks whether the folder is free."""

NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


class FolderInUse(OSError, Mistake):
    """Another process writes to the folder."""


class FolderGone(OSError, Mistake):
    """The folder in which a process writes was moved or deleted."""


@contextmanager
def owning(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a folder, which is created, and deleted again if nothing was written.

    The system frees the lock when the process ends for any reason, on a local disk and on NFS with
    locks on the server. On a file system without locks, a file names host and process; it is
    ignored if the process was on this machine and has ended.

    Args:
        folder: The folder.
        patience: Seconds to wait for a process that holds it.

    Raises:
        FolderInUse: If another process still holds it then; the message names its host, its id and
            its start.
    """
    is_new = not folder.exists()
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = _acquire(folder, patience)
            break
        except FileNotFoundError:  # the process that held it has just deleted the empty folder
            continue
    owner = folder / OWNER
    try:
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        owner.unlink(missing_ok=True)
        # Never through a link that somebody put there.
        with owner.open("x", encoding="utf-8") as file:
            json.dump([socket.gethostname(), os.getpid(), since], file)
        yield
    finally:
        # While it is locked: a process that waits for a deleted file notices, and asks again.
        owner.unlink(missing_ok=True)
        _delete_lock(folder)
        lock.release()
        if is_new:
            with suppress(OSError):  # the folder has files, or another process waits in it
                folder.rmdir()


def is_owned(folder: Path) -> bool:
    """Whether a process holds the lock of this folder, or ended while it held the lock."""
    return (folder / OWNER).exists()


def refuse_in_use(folder: Path) -> None:
    """Check that no other process holds the lock of a folder, which need not exist.

    Raises:
        FolderInUse: See `owning`.
    """
    if (folder / LOCK).exists() or (folder / MARKER).exists():
        with owning(folder):
            pass


def _acquire(folder: Path, patience: float) -> BaseFileLock:
    from filelock import FileLock, SoftFileLock, Timeout

    lock: BaseFileLock = FileLock(folder / LOCK, fallback_to_soft=False)
    try:
        try:
            lock.acquire(timeout=patience)
        except OSError as error:
            if error.errno not in NO_LOCKS:  # a Timeout has no number
                raise
            _delete_lock(folder)
            lock = SoftFileLock(folder / MARKER)
            lock.acquire(timeout=patience)
    except Timeout as error:
        raise FolderInUse(_message(folder, isinstance(lock, SoftFileLock))) from error
    return lock


def _delete_lock(folder: Path) -> None:
    """Delete the lock, if it is empty; a file with content is not a lock."""
    with suppress(FileNotFoundError):
        if not (folder / LOCK).lstat().st_size:
            (folder / LOCK).unlink()


def _message(folder: Path, marked: bool) -> str:
    try:
        owner: Any = json.loads((folder / OWNER).read_text("utf-8"))
        host, process, since = owner
        which = f"process {process!r} on {host!r} has held it since {since!r}"
    except (OSError, ValueError, TypeError):
        which = "another process holds it"
    end = f"; if that process has ended, delete {folder / MARKER}" if marked else ""
    return f"{folder} is in use: {which}{end}"

"""TensorBoard's files of events in a run's folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import write_sums

EVENTS = "events.out.tfevents."
"""The beginning of the names of TensorBoard's files, before the second of their creation."""


@contextmanager
def replacing_events(folder: Path, suffix: str) -> Iterator[Any]:
    """A writer of TensorBoard events whose file replaces the run's file with the same suffix.

    The file appears when the block ends, directly followed by its checksum.

    Raises:
        OSError: If they cannot be written; the earlier ones stay.
    """
    from torch.utils.tensorboard import SummaryWriter

    run = RunFolder(folder)
    catch_thread_errors()
    earlier = [name for name in event_files(folder) if name.endswith(suffix)]
    path = run.claim(folder / f"{EVENTS}{_last(folder)}.{os.getpid()}{suffix}")
    try:
        with atomic_write(path) as temporary:
            with SummaryWriter(str(temporary.parent), filename_suffix=suffix) as writer:
                yield writer
            raise_thread_error()
            (made,) = temporary.parent.glob(f"{EVENTS}*")
            made.rename(temporary)
    except BaseException:
        run.delete(path)
        raise
    write_sums(folder, [path.name])
    run.delete(*(folder / each for each in earlier))


def _last(folder: Path) -> str:
    """A time after those in the names of all event files, because TensorBoard reads them in this order.

    The clock may have been set back. The nanoseconds after ``~`` come after training's names of the
    same second, which have a ``.`` there.
    """
    names = (file.name.removeprefix(EVENTS)[:10] for file in folder.glob(f"{EVENTS}*"))
    now, latest = (
        int(time.time()),
        max((int(name) for name in names if name.isdecimal()), default=0),
    )
    return f"{now if now >= latest else latest + 1:010}~{time.time_ns():020}"


def event_files(folder: Path) -> list[str]:
    """The names of the files of events that a run wrote into its folder."""
    return [name for name in RunFolder(folder).own_names() if name.startswith(EVENTS)]


def catch_thread_errors() -> None:
    """Keep errors of the threads in which TensorBoard writes for `raise_thread_error`.

    Otherwise a thread prints its traceback, and TensorBoard raises the error only at the next
    event.
    """
    _caught.clear()
    if threading.excepthook is not _catch:
        _others.append(threading.excepthook)
        threading.excepthook = _catch


def raise_thread_error() -> None:
    """Raise the first error that a thread of TensorBoard had."""
    if _caught:
        error = _caught[0]
        _caught.clear()
        raise error


_caught: list[BaseException] = []
_others: list[Any] = []


def _catch(args: Any) -> None:
    if type(args.thread).__module__.startswith("tensorboard."):
        _caught.append(args.exc_value)
    else:
        _others[-1](args)

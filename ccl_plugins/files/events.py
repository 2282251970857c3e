"""TensorBoard's files of events in a run's folder."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EVENTS = "events.out.tfevents."
"""What the names of TensorBoard's files begin with; the second in which they were made follows."""


@contextmanager
def replacing_events(folder: Path, suffix: str) -> Iterator[Any]:
    """A writer of TensorBoard events whose file takes the place of those with the same suffix.

    Raises:
        OSError: If they cannot be written; the earlier ones stay.
    """
    from torch.utils.tensorboard import SummaryWriter

    catch_thread_errors()
    earlier = set(folder.glob(f"{EVENTS}*{suffix}"))
    try:
        with SummaryWriter(str(folder), filename_suffix=suffix) as writer:
            yield writer
        raise_thread_error()
    except BaseException:
        for file in set(folder.glob(f"{EVENTS}*{suffix}")) - earlier:
            file.unlink()
        raise
    for file in folder.glob(f"{EVENTS}*{suffix}"):
        if file in earlier:
            file.unlink()
        else:  # TensorBoard reads by name: in time, and after the training's of the same second
            second, rest = file.name.removeprefix(EVENTS).split(".", 1)
            file.rename(file.with_name(f"{EVENTS}{second}~{time.time_ns()}.{rest}"))


def catch_thread_errors() -> None:
    """Keep errors of the threads in which TensorBoard writes for `raise_thread_error`.

    Else a thread prints its traceback, and TensorBoard raises the error at the next event, if there is one.
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


def check_events(file: Path) -> None:
    """Compare the records of a file of events with the checksums in it.

    A record that a killed process did not finish is none.

    Raises:
        ValueError: For a damaged record, which TensorBoard takes for the end of the file.
    """
    from tensorboard.summary.writer.record_writer import masked_crc32c

    data, at = memoryview(file.read_bytes()), 0
    while len(data) - at >= 12:
        length, check = struct.unpack_from("<QI", data, at)
        whole = masked_crc32c(bytes(data[at : at + 8])) == check
        if whole and at + 16 + length > len(data):
            return
        if whole:
            check = struct.unpack_from("<I", data, at + 12 + length)[0]
            whole = masked_crc32c(bytes(data[at + 12 : at + 12 + length])) == check
        if not whole:
            raise ValueError(
                f"{file} is damaged at byte {at}: its events do not have their checksums"
            )
        at += 16 + length

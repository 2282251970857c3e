"""Other processes, forked from the one that tests: what they do is a function."""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Callable, Iterator

import torch


def forked(work: Callable[[], object], refused: tuple[type[BaseException], ...] = ()) -> int:
    """A process that calls ``work``; it exits with 0, with 3 if it is refused, else with 1."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        torch.set_num_threads(1)
        work()
        status = 0
    except refused:
        status = 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def status(child: int) -> int:
    """The exit status of a process, once it has ended; of one that was killed -9."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(child: int) -> None:
    """Kill a process, without warning."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@contextlib.contextmanager
def another(work: Callable[[Callable[[], object]], object]) -> Iterator[int]:
    """A process that calls ``work(ready)``; the block begins when it is ready, and ends it."""
    readable, writable = os.pipe()
    child = forked(lambda: work(lambda: os.write(writable, b"x")))
    try:
        os.read(readable, 1)
        yield child
    finally:
        with contextlib.suppress(ChildProcessError):  # which was killed
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                kill(child)
        os.close(readable)
        os.close(writable)

"""Other processes: what they do is a function.

`forked` copies the process that tests, with its patches. What trains is `started`: torch refuses a backward
pass in a copy of a process whose own one has made threads, which is so after 60 nested passes in any test.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from typing import NoReturn

import torch

Refused = tuple[type[BaseException], ...]


def forked(work: Callable[[], object], refused: Refused = ()) -> int:
    """A process that calls ``work``; it exits with 0, with 3 if it is refused, else with 1."""
    child = os.fork()
    if not child:
        _exit_after(work, refused)
    return child


def started(work: Callable[[], object], refused: Refused = ()) -> ForkServerProcess:
    """As `forked`, but with nothing of this process; ``work`` can be pickled."""
    context = multiprocessing.get_context("forkserver")
    child = context.Process(target=_of_its_own, args=(work, refused))
    child.start()
    return child


def _of_its_own(work: Callable[[], object], refused: Refused) -> NoReturn:
    # Its workers must be its children, as in a program: those of the fork server outlive a kill.
    multiprocessing.set_start_method("fork", force=True)
    _exit_after(work, refused)


def _exit_after(work: Callable[[], object], refused: Refused) -> NoReturn:
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

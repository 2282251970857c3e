"""Stopping a run on request: after the step, or at once."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)

PATIENCE = 1.0
"""Seconds after a second Ctrl-C in which a process must raise KeyboardInterrupt, or it is ended."""

PATIENCE_TO_CLOSE = 10.0
"""Seconds after a second Ctrl-C in which it must have closed what is open."""

EXIT_STATUS = 130

LAUNCHER = "CCL_LAUNCHER"
"""The variable in which a process leaves its number to those that it launches."""


class Interrupt:
    """A context that records a request to stop; a second Ctrl-C stops at once.

    A process that waits for others in a collective runs no Python, and no signal handler written in it.  So
    a thread watches too: it sees each signal when it arrives, and ends the process, with its workers and
    the processes that it launched, if a second Ctrl-C did not.  It also ends a process whose launcher is
    gone.

    It does nothing outside the main thread, where Python cannot set signal handlers.
    """

    def __init__(self) -> None:
        self.requested = False
        self._kill_launched: Callable[[Any], None] | None = None
        self._raised = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.getsignal(number) for number in SIGNALS}
            self.listen()
            ours, self._written = socket.socketpair()
            ours.setblocking(False)
            self._written.setblocking(False)
            self._former_fd = signal.set_wakeup_fd(
                self._written.fileno(), warn_on_full_buffer=False
            )
            # Not the parent alone: a launcher that ended before is no parent any more.
            launcher = int(os.environ.get(LAUNCHER, os.getppid()))
            self._watcher = threading.Thread(
                target=self._watch, args=(ours, launcher), daemon=True, name="ccl-interrupt"
            )
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._former:
            signal.set_wakeup_fd(self._former_fd)
            # Ends the watcher; closing alone does not while a forked worker has the socket too.
            self._written.shutdown(socket.SHUT_WR)
            self._written.close()
            self._watcher.join()
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def listen(self) -> None:
        """Install the handlers; called again after Lightning has replaced the one for SIGTERM."""
        for number in self._former:
            signal.signal(number, self._request)

    @contextlib.contextmanager
    def launching(self, kill: Callable[[Any], None]) -> Iterator[None]:
        """Processes that are launched within the block end with this one.

        Args:
            kill: Sends a signal to them.
        """
        self._kill_launched = kill
        os.environ[LAUNCHER] = str(os.getpid())
        try:
            yield
        finally:
            del os.environ[LAUNCHER]

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            self._raised = True
            raise KeyboardInterrupt
        self.requested = True

    def _watch(self, signals: socket.socket, launcher: int) -> None:
        launched = int(os.environ.get("LOCAL_RANK", 0)) > 0
        arrived, stop_at = 0, 0.0
        with signals:
            while True:
                if select.select([signals], [], [], 0.2)[0]:
                    numbers = signals.recv(256)
                    if not numbers:  # the context has ended
                        return
                    self._pass_on(numbers)
                    for number in (each for each in numbers if each in SIGNALS):
                        arrived += 1
                        if arrived == 1 and not launched:
                            logger.warning(
                                "%s: finishing the step and writing a checkpoint; Ctrl-C again stops at"
                                " once",
                                signal.Signals(number).name,
                            )
                        elif arrived > 1 and number == signal.SIGINT and not stop_at:
                            stop_at = time.monotonic()
                waited = time.monotonic() - stop_at if stop_at else 0.0
                if waited > (PATIENCE_TO_CLOSE if self._raised else PATIENCE):
                    self._end("stopped at once")
                if launched and os.getppid() != launcher:
                    self._end("stopped, since the process that launched this one has ended")

    def _pass_on(self, numbers: bytes) -> None:
        """Tell whoever listened for signals in the same way before, as an event loop does."""
        if self._former_fd != -1:
            with contextlib.suppress(OSError):
                os.write(self._former_fd, numbers)

    def _end(self, why: str) -> None:
        """End this process, what it launched and its workers; Python may never run here again."""
        if self._kill_launched is not None:
            self._kill_launched(signal.SIGKILL)
        for worker in multiprocessing.active_children():
            worker.kill()
        print(f"ccl: {why}", file=sys.stderr, flush=True)
        os._exit(EXIT_STATUS)

"""Interruptions of a run: a request to stop, and other processes or workers that ended or are silent."""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any

from torch import distributed as dist

from ccl_plugins.training import ranks

logger = logging.getLogger(__name__)

ALWAYS = (signal.SIGINT, signal.SIGTERM)
"""The signals that always ask a run to stop."""

OTHERS = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
    if hasattr(signal, name)
)
"""The signals that ask to stop if they would end the process: of a lost terminal, and of schedulers.

If they are ignored, such as under ``nohup``, or have another handler, this does not change.
"""

SIGNALS = (*ALWAYS, *OTHERS)

TOGETHER = 1.0
"""Seconds in which further signals, except Ctrl-C, count as repeats by shells and schedulers."""

PATIENCE = 1.0
"""Seconds after a second signal in which a process must raise KeyboardInterrupt, or it is ended."""

PATIENCE_TO_CLOSE = 10.0
"""Seconds after a second signal in which the process must have closed its resources."""

EXIT_STATUS = 130

LAUNCHER = "CCL_LAUNCHER"
"""The environment variable with the id of the launching process."""

BOUND = timedelta(hours=1)
"""The time that a process waits for another, long enough to encode or cluster a data set."""

SIGNS = ("gloo", "Connection closed by peer", "Connection reset by peer", "NCCL")
"""Texts of communication errors that are not `torch.distributed.DistError`."""

WORKER = "DataLoader worker (pid"
"""The beginning of torch's errors about a worker that was ended."""


class Interrupt:
    """A context that records a request to stop; a second signal stops at once.

    A process that waits for others in a collective does not run Python's signal handlers. So a
    thread watches too: it sees each signal when it arrives, and ends the process, with its workers
    and the processes that it launched, if a second signal did not. It also ends a process whose
    launcher is gone.

    It does nothing outside the main thread, where Python cannot set signal handlers.
    """

    def __init__(self) -> None:
        self.requested = False
        self._since = 0.0
        """The time of the first signal; 0: none."""
        self._stop_at = 0.0
        """The time of the second signal."""
        self._kill_launched: Callable[[Any], None] | None = None
        self._raised = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            now = {number: signal.getsignal(number) for number in SIGNALS}
            self._former = {n: h for n, h in now.items() if n in ALWAYS or h == signal.SIG_DFL}
            self.listen()
            _listening.append(self)
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
            _listening.remove(self)
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

    @contextmanager
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
        leave_lost_terminal()
        if self.requested and self._is_second(number):
            self._raised = True
            raise KeyboardInterrupt
        self.requested = True

    def _is_second(self, number: int) -> bool:
        """Whether a signal after the first one asks to stop at once."""
        if number == getattr(signal, "SIGXCPU", 0):  # the system sends it every second
            return False
        since = self._since or time.monotonic()  # the watcher may not have seen the first yet
        return number == signal.SIGINT or time.monotonic() - since > TOGETHER

    def _watch(self, signals: socket.socket, launcher: int) -> None:
        launched = int(os.environ.get("LOCAL_RANK", 0)) > 0
        arrived = 0
        with signals:
            while True:
                if select.select([signals], [], [], 0.2)[0]:
                    numbers = signals.recv(256)
                    if not numbers:  # the context has ended
                        return
                    self._pass_on(numbers)
                    for number in (each for each in numbers if each in self._former):
                        arrived += 1
                        if arrived == 1:
                            self._since = time.monotonic()
                        if arrived == 1 and not launched:
                            logger.warning(
                                "%s: finishing the step and writing a checkpoint; Ctrl-C again stops at"
                                " once",
                                signal.Signals(number).name,
                            )
                        elif arrived > 1 and self._is_second(number) and not self._stop_at:
                            self._stop_at = time.monotonic()
                waited = time.monotonic() - self._stop_at if self._stop_at else 0.0
                if waited > (PATIENCE_TO_CLOSE if self._raised else PATIENCE):
                    self._end("stopped at once")
                if launched and os.getppid() != launcher:
                    self._end("stopped, since the process that launched this one has ended")

    def _pass_on(self, numbers: bytes) -> None:
        """Pass the signal on to an earlier listener, such as an event loop."""
        if self._former_fd != -1:
            with suppress(OSError):
                os.write(self._former_fd, numbers)

    def _end(self, why: str) -> None:
        """End this process, its workers and launched processes, even if Python cannot run here."""
        if self._kill_launched is not None:
            self._kill_launched(signal.SIGKILL)
        for worker in multiprocessing.active_children():
            worker.kill()
        with suppress(OSError):  # the terminal may be gone
            print(f"ccl: {why}", file=sys.stderr, flush=True)
        os._exit(EXIT_STATUS)


_listening: list[Interrupt] = []


def _forked() -> None:
    """Keep a forked process's signals from its parent, which would treat them as its own."""
    if _listening:
        signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def leave_lost_terminal() -> None:
    """Discard output to a lost terminal, where each write would be an error."""
    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)


def ignore_in_worker() -> None:
    """Make a worker ignore signals that ask a run to stop, so that the main process can finish its step.

    Ctrl-C, and schedulers that end a job, signal the workers as well.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # Only the first SIGTERM is ignored: the main process ends its workers with a second one.
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))


class LostProcess(RuntimeError):
    """Another process of the run, or a worker, has ended, or did not answer within `BOUND`."""


class Waiting:
    """Reports when no step has ended for a while, and recognizes communication errors.

    Each of several processes reports for itself, because none knows which other one it waits for:
    the silent process has stopped.

    Args:
        last_good: Returns the sentence about the checkpoint that the run can return to.
        after: Seconds without a step before the report; repeated after twice as many, and so on.
    """

    def __init__(self, last_good: Callable[[], str] = str, after: float = 60.0) -> None:
        self.last_good = last_good
        self.after = after
        self._step = 0
        self._ended = threading.Event()
        self._since = time.monotonic()

    def note(self, step: int) -> None:
        """Note the time at which the given number of optimizer steps has been taken."""
        self._step, self._since = step, time.monotonic()

    @contextmanager
    def watching(
        self, several: bool, launched: Callable[[], Iterable[Any]] = tuple
    ) -> Iterator[None]:
        """Watch the main thread of one of several processes, and the processes that it launched.

        Args:
            several: Whether there are other processes.
            launched: Returns the `subprocess.Popen` of each launched process.

        Raises:
            LostProcess: For an error of communication, with the process, its host and the step.
        """
        if not several:
            yield
            return
        self._since = time.monotonic()
        watch = partial(self._watch, launched)
        watcher = threading.Thread(target=watch, daemon=True, name="ccl-waiting")
        watcher.start()
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and not any(s in str(error) for s in SIGNS):
                raise
            reason = " ".join(str(error).split())[:300]
            line = (
                f"{_who()} lost another one after step {self._step}: it ended, or did not answer for"
                f" {_minutes()}; its own output says why ({reason}). {self.last_good()}"
            )
            # At once: the launcher may end this process before the error is shown.
            logger.error(line)
            raise LostProcess(line) from error
        finally:
            self._ended.set()
            watcher.join()

    @contextmanager
    def telling_of_workers(self) -> Iterator[None]:
        """Recognize a worker that was ended from outside.

        Raises:
            LostProcess: For such a worker; the message names the step and settings that need less
                memory.
        """
        try:
            yield
        except RuntimeError as error:
            if not str(error).startswith(WORKER):
                raise
            raise LostProcess(
                f"a worker that reads samples was ended after step {self._step}, as the system does where"
                " memory is short (fewer fit.workers, or smaller batches, need less) or where a file that"
                f" it reads was cut short: {' '.join(str(error).split())[:300]}. {self.last_good()}"
            ) from error

    def _watch(self, launched: Callable[[], Iterable[Any]]) -> None:
        told: set[int] = set()
        main = threading.main_thread().ident
        since, after = self._since, self.after
        # Often: Lightning looks every five seconds, and ends this process at once if one of them has ended.
        while not self._ended.wait(min(0.02, self.after / 4)):
            for process in launched():
                if process.pid not in told and process.poll():
                    told.add(process.pid)
                    logger.error(
                        "process %d, launched by %s, ended with status %d after step %d. %s",
                        process.pid,
                        _who(),
                        process.returncode,
                        self._step,
                        self.last_good(),
                    )
            if self._since != since:
                since, after = self._since, self.after
            waited = time.monotonic() - since
            if waited < after:
                continue
            after *= 2
            frame = sys._current_frames().get(main or 0)
            place = (frame.f_code.co_name, frame.f_globals.get("__name__")) if frame else ("?", "?")
            logger.warning(
                "no step has ended for %.0f s, after step %d: %s is in %s of %s. If it waits for another"
                " process, that one has stopped; after %s this one ends.",
                waited,
                self._step,
                _who(),
                *place,
                _minutes(),
            )


def _who() -> str:
    return f"process {ranks.rank()} of {ranks.world_size()} on {socket.gethostname()}"


def _minutes() -> str:
    return f"{BOUND.total_seconds() / 60:g} minutes"

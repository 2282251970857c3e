"""What a process says of others that it waits for: one may be stopped, or have ended."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from torch import distributed as dist

from ccl_plugins.training import ranks

logger = logging.getLogger(__name__)

BOUND = timedelta(hours=1)
"""For how long a process waits for another: until one has encoded or clustered a data set, too."""

SIGNS = ("gloo", "Connection closed by peer", "Connection reset by peer", "NCCL")
"""What errors of communication say that are no `torch.distributed.DistError`."""


WORKER = "DataLoader worker (pid"
"""What torch's errors of a worker that was ended begin with."""


class LostProcess(RuntimeError):
    """Another process of the run, or a worker, has ended, or did not answer within `BOUND`."""


class Waiting(Callback):
    """Says when no step has ended for a while, and tells an error of communication by its name.

    Each of several processes says it for itself, since none knows of which other one it waits: the one
    that says nothing has stopped.

    Args:
        last_good: Gives the sentence about the checkpoint that the run can return to.
        after: Seconds without a step after which it is said; again after twice as many, and so on.
    """

    def __init__(self, last_good: Callable[[], str] = str, after: float = 60.0) -> None:
        self.last_good = last_good
        self.after = after
        self._step = 0
        self._ended = threading.Event()
        self._since = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Note the time."""
        self._step, self._since = trainer.global_step, time.monotonic()

    @contextmanager
    def watching(
        self, several: bool, launched: Callable[[], Iterable[Any]] = tuple
    ) -> Iterator[None]:
        """Watch the main thread of one of several processes, and those that it launched.

        Args:
            several: Whether there are others.
            launched: Gives the `subprocess.Popen` of each.

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
        """Tell by its name that a worker was ended from outside.

        Raises:
            LostProcess: For such a worker, with the step and what needs less memory.
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

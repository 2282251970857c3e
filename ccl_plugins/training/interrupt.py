"""Stopping on request: Ctrl-C and SIGTERM are asked for at a step's end, not in its midst."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Remembers that a stop was requested while it is entered; a second Ctrl-C stops at once.

    In a thread other than the main one nothing is changed, since python has signals only there.
    """

    def __init__(self) -> None:
        self.requested = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.getsignal(number) for number in SIGNALS}
            self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def listen(self) -> None:
        """Take the signals (again: Lightning takes SIGTERM when it starts)."""
        for number in self._former:
            signal.signal(number, self._request)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        logger.warning(
            "%s: finishing the step and writing a checkpoint; Ctrl-C again stops at once",
            signal.Signals(number).name,
        )

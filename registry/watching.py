"""What importing something of a plugin costs, prints and brings with it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

KEPT = 200
"""Characters kept of what is printed."""


class Watch:
    """What was seen: `seconds`, the beginning of what was `printed`, and new top-level `modules`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.printed = ""
        self.modules: set[str] = set()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside, and keep it off the standard output.

        That is the program's own, which may be writing JSON to it; a plugin's words go to the
        standard error.  Whatever is raised passes.
        """
        before, begin = set(sys.modules), time.perf_counter()
        _output.divert(self)
        try:
            yield
        finally:
            _output.restore(self)
            self.seconds += time.perf_counter() - begin
            self.modules |= {name.partition(".")[0] for name in set(sys.modules) - before}


class _Output:
    """The standard output of the process, away while at least one watch is on.

    Counted, as threads may import at once: the last to finish brings it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: Any = None
        self.watches: list[Watch] = []

    def divert(self, watch: Watch) -> None:
        with self._lock:
            if not self.watches:
                self._own, sys.stdout = sys.stdout, _Aside()
            self.watches.append(watch)

    def restore(self, watch: Watch) -> None:
        with self._lock:
            self.watches.remove(watch)
            if not self.watches:
                sys.stdout = self._own


class _Aside:
    """The standard error in place of the standard output, and a note of what is written to it."""

    def __init__(self) -> None:
        self._stream = sys.stderr

    def write(self, text: str) -> int:
        for watch in _output.watches:
            watch.printed = (watch.printed + text)[:KEPT]
        # There is none under pythonw; and a plugin may keep this for longer than its import.
        return self._stream.write(text) if self._stream else len(text)

    def flush(self) -> None:
        if self._stream:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_output = _Output()

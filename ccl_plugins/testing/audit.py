"""Records which files, folders, connections and programs a function opens."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

EVENTS = {"open", "os.listdir", "os.scandir", "socket.connect", "subprocess.Popen", "os.system"}

_seen = threading.local()


def what_it_opens(function: Callable[[], Any]) -> list[str]:
    """The audit events of opening while a function runs, except for Python's own modules."""
    _install()
    _seen.events = events = list[str]()
    try:
        function()
    finally:
        del _seen.events
    return events


@functools.cache  # once per process: Python cannot remove an audit hook
def _install() -> None:
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...], events: Any = EVENTS, seen: Any = _seen) -> None:
    # Defaults, since Python empties a module before the last audited events of a process.
    if event in events and hasattr(seen, "events"):
        what = str(arguments[0]) if arguments else ""
        if not what.endswith((".py", ".pyc", ".so")):
            seen.events.append(f"{event} {what}")

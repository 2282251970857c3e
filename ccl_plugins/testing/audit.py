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
    _seen.events = []
    try:
        function()
    finally:
        found, _seen.events = _seen.events, None
    return found


@functools.cache
def _install() -> None:
    """Add the audit hook once per process: Python cannot remove it."""
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    events = getattr(_seen, "events", None)
    if events is None or event not in EVENTS:
        return
    what = str(arguments[0]) if arguments else ""
    if not what.endswith((".py", ".pyc", ".so")):
        events.append(f"{event} {what}")

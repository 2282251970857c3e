"""What a piece of code opens: files, folders, connections, programs."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

EVENTS = {"open", "os.listdir", "os.scandir", "socket.connect", "subprocess.Popen", "os.system"}

_seen = threading.local()


def what_it_opens(function: Callable[[], Any]) -> list[str]:
    """The files, folders, connections and programs that a function opens, but for Python's own."""
    _install()
    _seen.events = []
    try:
        function()
    finally:
        found, _seen.events = _seen.events, None
    return found


@functools.cache
def _install() -> None:
    """Once a process: Python cannot take an audit hook away."""
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    events = getattr(_seen, "events", None)
    if events is None or event not in EVENTS:
        return
    what = str(arguments[0]) if arguments else ""
    if not what.endswith((".py", ".pyc", ".so")):
        events.append(f"{event} {what}")

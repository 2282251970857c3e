"""A plugin: an installed distribution, its entry points, and notes from reading it."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import PluginFailed, one_line
from .quoting import escaped_lines

PRINTED = 200
"""The most characters that are kept of the text that a plugin prints."""


class Entry(NamedTuple):
    """An entry point: ``name = value`` in the section ``[group]``."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class Failure:
    """An error in one entry point, hook or component; the rest of the plugin stays available."""

    plugin: str
    version: str
    reason: str
    traceback: str

    @classmethod
    def of(cls, plugin: str, version: str, error: BaseException) -> Failure:
        """The failure that an exception causes."""
        details = escaped_lines("".join(traceback.format_exception(error)))
        return cls(plugin, version, one_line(error), details)


@dataclass
class Plugin:
    """A distribution with entry points of the project.

    Args:
        name: Its normalized name.
        version: Its version; empty without one.
        copies: Its places, ``"1.2 in /folder"``, if it is installed more than once; the first
            counts.
        entries: Its entry points, by group and name.
        faults: The faults of its metadata.
        disabled: Whether it is not read.
        strict: Whether its errors are raised instead of recorded.
        failures: Its errors.
        seconds: The time that reading its hooks took.
        printed: The beginning of the text that the hooks printed.
        modules: Top-level modules that the hooks were the first to import.
        changes: Settings of the process that importing the hooks changed.
    """

    name: str
    version: str
    copies: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    faults: tuple[str, ...] = ()
    disabled: bool = False
    strict: bool = False
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    printed: str = ""
    modules: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """``"ok"``, ``"failed"`` or ``"disabled"``."""
        return "failed" if self.failures else "disabled" if self.disabled else "ok"

    @property
    def has_hooks(self) -> bool:
        """Whether it declares a module of hooks."""
        return any(entry.group.endswith(".hooks") for entry in self.entries)

    @property
    def reason(self) -> str:
        """The reason of the failure."""
        return "; ".join(failure.reason for failure in self.failures)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record every error as a failure; Ctrl-C passes."""
        try:
            yield
        except KeyboardInterrupt as error:  # perhaps because this plugin takes too long
            error.add_note(f"plugin {self.name} was being read")
            raise
        except BaseException as error:  # a plugin may raise anything, and must not end the program
            if self.strict:
                raise PluginFailed(f"plugin {self.name}: {one_line(error)}") from error
            self.failures.append(Failure.of(self.name, self.version, error))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note duration, prints, new modules and changed settings, and send prints to the standard error.

        The standard output belongs to the program, which may be writing JSON to it.  Settings that
        would stop the program or other plugins are restored.
        """
        before, begin = set(sys.modules), time.perf_counter()
        settings = {name: read() for name, (read, _) in _SETTINGS.items()}
        try:
            with contextlib.redirect_stdout(_Noted(self)), warnings.catch_warnings():
                try:
                    yield
                finally:
                    now = {name: read() for name, (read, _) in _SETTINGS.items()}
        finally:
            self.seconds += time.perf_counter() - begin
            brought = {name.partition(".")[0] for name in set(sys.modules) - before}
            self.modules += sorted(brought.difference(self.modules))
            for name in (name for name in settings if settings[name] != now[name]):
                self.changes += [] if name in self.changes else [name]
                # The folder is gone, this is not the main thread, or the handler was not set from Python.
                with contextlib.suppress(OSError, ValueError, TypeError):
                    _SETTINGS[name][1](settings[name])


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "sys.path": (lambda: [*sys.path], lambda path: None),
    "warning filters": (lambda: [*warnings.filters], lambda filters: None),
    "the working directory": (_folder, os.chdir),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the handler of Ctrl-C": (
        lambda: signal.getsignal(signal.SIGINT),
        lambda handler: signal.signal(signal.SIGINT, handler),
    ),
}
"""Settings of the process that an import should not change, with functions to read and restore each.

Without some of them the program or other plugins would not work; a plugin's own modules may need the rest.
"""


class _Noted(io.TextIOBase):
    """The standard error in place of the standard output; the plugin keeps a copy of the text."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def write(self, text: str) -> int:
        self._plugin.printed = (self._plugin.printed + text)[:PRINTED]
        return sys.stderr.write(text) if sys.stderr else len(text)  # None under pythonw

    def fileno(self) -> int:
        return sys.stderr.fileno()

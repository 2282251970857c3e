"""Warnings for users on standard error: one line each, once."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ccl_plugins.files.processes import is_first

LOGGED = ("ccl_plugins.evaluators", "ccl_plugins.networks")
"""The loggers whose warnings are printed too."""


class _Lines:
    """The warnings that were printed, and the subject of each."""

    def __init__(self) -> None:
        self.about, self.again = "", False
        self._names: dict[str, set[str]] = {}
        self._printed: dict[str, int] = {}

    def line(self, message: Warning | str, *_: object, **__: object) -> str:
        """The line of a warning, for `warnings.formatwarning`; empty if it was printed before."""
        text = printable(str(message))
        names, printed = self._names.setdefault(text, set()), self._printed.setdefault(text, 0)
        repeated = self.about in names or (printed and not self.again)
        names.add(self.about)
        if repeated or not is_first():
            return ""
        self._printed[text] += 1
        return f"ccl: warning: {self.about}: {text}\n" if self.about else f"ccl: warning: {text}\n"

    def rest(self) -> str:
        """A line for each warning that was about more runs than its lines name."""
        lines = ""
        for text, names in self._names.items():
            if more := len(names) - self._printed[text]:
                lines += f"ccl: warning: {more} more run{'s' * (more > 1)}: {text}\n"
        return lines if is_first() else ""


_printing: _Lines | None = None
"""The present printer of warnings, or None."""

_of_runs: dict[Path, _Lines] = {}
"""The warnings printed in this process, by the folder of their run."""


@contextmanager
def one_line_warnings(run: Path | None = None, *, anew: bool = True) -> Iterator[None]:
    """Print a warning as one line without file and source, once, and only on the first process.

    The same holds for logged warnings. Filters of warnings, and Python's recording of them, are
    unchanged. Inside another such context, the outer one prints.

    Args:
        run: The folder of the run that the warnings are about.
        anew: Whether warnings that this process printed for the run are printed again.
    """
    global _printing
    if _printing is not None:
        yield
        return
    lines = _Lines() if run is None else _of_runs.setdefault(run, _Lines())
    if run is not None and anew:
        lines = _of_runs[run] = _Lines()

    class Logged(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sys.stderr.write(lines.line(record.getMessage()))

    former, handler = warnings.formatwarning, Logged(logging.WARNING)
    for name in LOGGED:
        logging.getLogger(name).addHandler(handler)
    warnings.formatwarning, _printing = lines.line, lines
    _forget()
    try:
        yield
    finally:
        warnings.formatwarning, _printing = former, None
        for name in LOGGED:
            logging.getLogger(name).removeHandler(handler)
        sys.stderr.write(lines.rest())


@contextmanager
def warnings_of(name: str, *, again: bool = False) -> Iterator[None]:
    """Begin the lines of warnings with a name, such as that of one of several runs.

    A warning that was printed for another run is only counted, and the number is printed at the
    end.

    Args:
        name: The subject of the warnings.
        again: Whether such a warning is printed again instead.
    """
    if (lines := _printing) is None:
        yield
        return
    before = lines.about, lines.again
    lines.about, lines.again = name, again
    _forget()
    try:
        yield
    finally:
        lines.about, lines.again = before


def _forget() -> None:
    """Let Python issue the same warnings again; this module keeps track of printed ones."""
    with warnings.catch_warnings():  # entering and leaving it does so
        pass


def printable(text: str) -> str:
    """A text on one line, with control characters escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))

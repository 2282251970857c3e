"""Warnings as users read them on standard error: one line each, once."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
"""The variables in which launchers give each process its number."""


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print a warning as one line without file and source, once, and on the first process alone.

    So are the warnings that evaluators log.  Filters of warnings, and Python's recording of them, work as
    before.
    """
    shown: set[str] = set()
    former = warnings.formatwarning

    def as_line(message: Warning | str, *_: object, **__: object) -> str:
        text = printable(str(message))
        if text in shown or not is_first_by_launcher():
            return ""
        shown.add(text)
        return f"ccl: warning: {text}\n"

    class Logged(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sys.stderr.write(as_line(record.getMessage()))

    logger, handler = logging.getLogger("ccl_plugins.evaluators"), Logged(logging.WARNING)
    logger.addHandler(handler)
    warnings.formatwarning = as_line
    try:
        yield
    finally:
        warnings.formatwarning = former
        logger.removeHandler(handler)


def printable(text: str) -> str:
    """A text on one line, in which characters that steer a terminal are escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))


def is_first_by_launcher() -> bool:
    """Whether no launcher says that this is another process than the first."""
    return all(os.environ.get(name, "0") in ("", "0") for name in RANKS)

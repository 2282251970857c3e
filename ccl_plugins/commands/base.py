"""Shared by commands: arguments, output, and one line for a user's mistake."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import ccl_registry as engine
from ccl_plugins.kinds import KINDS

MISTAKES = (
    ValueError,
    TypeError,
    RuntimeError,
    MemoryError,
    ArithmeticError,
    ImportError,
)
"""The errors of wrong values while a pipeline is composed; torch raises RuntimeError for a size of 10**12.

An ImportError means that a package which a component needs is not installed.
"""


class Failed(RuntimeError):
    """A run that failed, although nothing was wrong in the call or in its file; the message says why."""


FORMATS = ("text", "markdown", "latex")
"""The forms of a table."""

A_RUN = "a folder that `ccl train` wrote"

KIND_NAMES = ", ".join(kind.name for kind in KINDS)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``, which `show` obeys."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``, which `show` obeys."""
    words = "how the table is printed (default: %(default)s)"
    parser.add_argument("--format", choices=FORMATS, default="text", help=words)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the folders of runs, one or more."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help=A_RUN)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a run."""
    parser.add_argument("run_folder", metavar="RUN", help=A_RUN)


def add_set(parser: argparse.ArgumentParser, of: str, example: str) -> None:
    """Add ``--set``, which replaces values of a configuration."""
    words = f"replaces a value of the {of}, such as {example}; may be repeated"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=words)


def show(options: argparse.Namespace, work: Callable[[], Any]) -> Any:
    """Print what ``work`` returns, as ``--json`` or ``--format`` says, and return it.

    Nothing else goes to the standard output: other prints of components go to the standard error.
    """
    form = getattr(options, "format", "text")
    if options.json and form != "text":
        raise engine.Mistake(f"--json and --format {form}: give one of them")
    with prints_redirected():
        result = work()
    print(result.json() if options.json else result if form == "text" else result.written(form))
    return result


@contextmanager
def prints_redirected() -> Iterator[None]:
    """Redirect the standard output to the standard error, also that of code in other languages."""
    with redirect_stdout(sys.stderr):
        try:
            kept = os.dup(1)
        except OSError:  # it is closed
            yield
            return
        try:
            os.dup2(2, 1)
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


@contextmanager
def reporting_mistakes(file: str = "") -> Iterator[None]:
    """Report errors of the registry, of values, types and sizes as mistakes.

    It surrounds composing, checking and reading; errors of training are bugs and keep their traceback.

    Args:
        file: The file in which the mistake was made, for the message.
    """
    try:
        yield
    except MISTAKES as error:
        raise engine.Mistake(about(file, message(error)) if file else message(error)) from error


def about(name: str, text: str) -> str:
    """A message that begins with the file or folder that it is about."""
    return text if text.startswith((f"{name}:", f"{name} ")) else f"{name}: {text}"


def message(error: BaseException) -> str:
    """The message of an error on one line, with its first note."""
    text = engine.one_line(error) if isinstance(error, engine.RegistryError) else _text(error)
    notes = getattr(error, "__notes__", ())
    return engine.escaped(f"{text} ({notes[0]})" if notes else text, 3000)


def _text(error: BaseException) -> str:
    text = str(error)
    if "Original Traceback" in text:  # from a worker that loads data: the last line is the error
        text = text.rstrip().rpartition("\n")[2].partition(": ")[2]
    return " ".join(text.splitlines())

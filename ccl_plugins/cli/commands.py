"""Shared by the sub-commands: adding a parser, and reporting a user's mistake in one line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ccl_plugins._engine import engine

if TYPE_CHECKING:
    # argparse has no public name for what `add_subparsers` returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


class Mistake(ValueError):
    """A mistake in the call or in a file that it names; the message says what would be right."""


def command(commands: Commands, name: str, doc: str, example: str) -> argparse.ArgumentParser:
    """Add a sub-command whose help ends with an example."""
    return commands.add_parser(
        name,
        help=doc,
        description=doc,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


@contextmanager
def reporting_mistakes(file: str = "") -> Iterator[None]:
    """Report errors of the registry, ValueError and TypeError as mistakes.

    It surrounds composing, checking and reading; errors of training are bugs and keep their traceback.

    Args:
        file: The file in which the mistake was made, for the message.
    """
    try:
        yield
    except (engine.RegistryError, ValueError, TypeError) as error:
        text = message(error)
        where = f"{file}: " if file and not text.startswith(f"{file}:") else ""
        raise Mistake(f"{where}{text}") from error


def message(error: BaseException) -> str:
    """The message of an error, with its first note."""
    text = str(error)
    if "Original Traceback" in text:  # of a worker that loads data: its last line is the error
        text = text.rstrip().rpartition("\n")[2].partition(": ")[2]
    notes = getattr(error, "__notes__", ())
    return f"{text} ({notes[0]})" if notes else text

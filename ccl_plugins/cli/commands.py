"""What sub-commands share: how one is added, and how a mistake in the call is told."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine

if TYPE_CHECKING:
    from ccl_plugins.pipeline.composition import Pipeline

    # argparse has no public name for what `add_subparsers` returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


class Mistake(ValueError):
    """What was asked for cannot be done as it was asked; the message says why."""


def command(commands: Commands, name: str, doc: str, example: str) -> argparse.ArgumentParser:
    """A sub-command whose help ends with an example."""
    return commands.add_parser(
        name,
        help=doc,
        description=doc,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def compose(file: str, settings: dict[str, Any]) -> Pipeline:
    """The pipeline of a file, with other settings of its ``[fit]`` table."""
    from ccl_plugins.pipeline.composition import Pipeline

    try:
        return understood(lambda: Pipeline.from_toml(file).with_settings(**settings))
    except (engine.RegistryError, Mistake) as error:
        raise of(file, error) from error


def of(file: str, error: Exception) -> Mistake:
    """A mistake that names the file in which it was made."""
    said = told(error)
    return Mistake(said if said.startswith(f"{file}:") else f"{file}: {said}")


def told(error: BaseException) -> str:
    """The message of an error, with the first note on where it came from."""
    notes = getattr(error, "__notes__", ())
    return f"{error} ({notes[0]})" if notes else str(error)


def understood(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns; what it says of its input is a mistake in the call, not a crash."""
    try:
        return function(*arguments, **options)
    except engine.RegistryError:
        raise
    except (ValueError, TypeError) as error:
        raise Mistake(told(error)) from error

"""The command line: finds the command that is called, a built-in or a plug-in's, and runs it.

Only the module of that command is imported, so a broken command does not break others.
"""

from __future__ import annotations

import argparse
import atexit
import inspect
import os
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import ccl_registry as engine
from ccl_plugins.commands.base import message, prints_redirected
from ccl_plugins.files.messages import one_line_warnings
from ccl_plugins.files.processes import is_first
from ccl_plugins.kinds import registry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    The status is 0, 1 for a failure that a command found, 2 for a mistake of the user, or 130 after
    Ctrl-C. A mistake is reported in one line; with ``CCL_STRICT=1`` it is raised, with its
    traceback. A bug is always raised.

    Args:
        arguments: The words after ``ccl``; by default the process's arguments.
    """
    words = sys.argv[1:] if arguments is None else [*arguments]
    parsing = not words or words[0].startswith("-")
    try:
        with one_line_warnings():
            if parsing:
                _parser().parse_args(words)
            command, parser = read_command(words[0])
            parsing = True
            options = parser.parse_args(words[1:])
            parsing = False
            status = int(command.run(options) or 0)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `ccl list | head`; what is left must not be flushed into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        if is_first():
            notes = getattr(error, "__notes__", ())
            print("; ".join(["ccl: interrupted", *notes]), file=sys.stderr)
        return 130
    except SystemExit as error:  # from a component: its status 0 must not pass for success
        if parsing or registry().strict:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        end = f"{engine.escaped(place.filename)}:{place.lineno} ends the program"
        print(f"ccl: {end} ({engine.one_line(error)})", file=sys.stderr)
        return 1
    except (engine.Mistake, OSError) as error:
        if registry().strict:
            raise
        print(f"ccl: {message(error)}", file=sys.stderr)
        return 2


START = "Start with 'ccl init FOLDER_OR_TABLE'; 'ccl COMMAND --help' shows an example of each."

GRACE = 5.0
"""Seconds that threads of plug-ins have to end after a command."""


def run() -> NoReturn:
    """The program ``ccl``: run the command line and end, even if a plug-in left threads running."""
    status = main()
    until = time.monotonic() + GRACE
    others = [each for each in threading.enumerate() if each is not threading.current_thread()]
    for thread in others:
        if not thread.daemon:
            thread.join(max(0.0, until - time.monotonic()))
    left = [each.name for each in others if each.is_alive() and not each.daemon]
    if left:
        print(f"ccl: threads that did not end are left: {', '.join(left)}", file=sys.stderr)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def read_command(name: str) -> tuple[Any, argparse.ArgumentParser]:
    """A command and the parser of its arguments.

    Args:
        name: The typed name, or ``PLUGIN/NAME``.

    Raises:
        RegistryError: For an unknown command, and for one that cannot be imported or built.
    """
    with prints_redirected():  # this imports the hooks of plug-ins
        spec = registry().find("command", name)
        target = spec.load()
        command = target()
    example = getattr(command, "example", "")  # `trait` would import torch
    parser = argparse.ArgumentParser(
        prog=f"ccl {_word(spec)}",
        description=" ".join((inspect.getdoc(target) or "").split()),
        epilog=f"example:\n  {example}" if example else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return command, parser


def _parser() -> argparse.ArgumentParser:
    """The parser of the words before a command; its help lists the commands."""
    reg, sources = registry(), engine.Sources()
    rows = {_word(spec): reg.summary(spec, sources) for spec in reg.specs("command")}
    width = max(map(len, rows))
    lines = [
        textwrap.fill(
            text, 79, initial_indent=f"  {word:{width}}  ", subsequent_indent=" " * (width + 4)
        )
        for word, text in rows.items()
    ]
    parser = argparse.ArgumentParser(
        prog="ccl",
        usage="ccl [-h] [--version] COMMAND ...",
        description="Conditional contrastive learning as plug-ins on lightly.",
        epilog="\n".join(["commands:", *lines, "", START]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("command", metavar="COMMAND", help="one of those below")
    return parser


def _word(spec: engine.ComponentSpec) -> str:
    """The words that call a command."""
    return registry().short_name(spec).replace("_", "-")


class _Version(argparse.Action):
    """Print the version, which is read only here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"ccl-plugins {version('ccl-plugins')}")
        parser.exit()

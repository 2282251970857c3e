"""The command line: one file per command, and here the parser and the exit status; no training.

A command imports what it needs when it runs, so that `ccl list` does not wait for torch.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import ccl_registry as engine
from ccl_plugins.cli import (
    check,
    doctor,
    embed,
    evaluate,
    export,
    figures,
    find_lr,
    info,
    information,
    init,
    inspect,
    list,
    new,
    push,
    report,
    sweep,
    train,
)
from ccl_plugins.cli.commands import Mistake, message
from ccl_plugins.files.messages import is_first_by_launcher, one_line_warnings
from ccl_plugins.kinds import registry

COMMANDS = (
    init,
    list,
    info,
    doctor,
    inspect,
    find_lr,
    train,
    evaluate,
    figures,
    report,
    sweep,
    check,
    export,
    push,
    embed,
    information,
    new,
)
"""The modules of the commands, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0; 1 for a failure found; 2 for a mistake of the user; 130 after Ctrl-C.  A mistake is reported in one
    line; with ``CCL_STRICT=1`` it is raised, with its traceback.  A bug is always raised.

    Args:
        arguments: The words after ``ccl``; by default those of the process.
    """
    options = _parser().parse_args(arguments)
    try:
        with one_line_warnings():
            status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `ccl list | head`; what is left must not be flushed into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        if is_first_by_launcher():
            notes = getattr(error, "__notes__", ())
            print("; ".join(["ccl: interrupted", *notes]), file=sys.stderr)
        return 130
    except SystemExit as error:  # of a component: its 0 must not pass for success
        if registry().strict:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        end = f"{engine.shown(place.filename)}:{place.lineno} ends the program"
        print(f"ccl: {end} ({engine.one_line(error)})", file=sys.stderr)
        return 1
    except (engine.RegistryError, Mistake, OSError) as error:
        if registry().strict:
            raise
        print(f"ccl: {message(error)}", file=sys.stderr)
        return 2


GRACE = 5.0
"""Seconds that threads of plug-ins have to end once a command is done."""


def run() -> NoReturn:
    """The program ``ccl``: run the command line and end, whatever threads a plug-in left running."""
    status = main()
    until = time.monotonic() + GRACE
    others = [each for each in threading.enumerate() if each is not threading.current_thread()]
    for each in others:
        if not each.daemon:
            each.join(max(0.0, until - time.monotonic()))
    left = [each.name for each in others if each.is_alive() and not each.daemon]
    if left:
        print(f"ccl: threads that did not end are left: {', '.join(left)}", file=sys.stderr)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ccl",
        description="Conditional contrastive learning as plug-ins on lightly.",
        epilog="Start with 'ccl init FOLDER_OR_TABLE'; 'ccl COMMAND --help' shows an example of each.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.COMMAND.add_to(commands)
    return parser


class _Version(argparse.Action):
    """Print the version, which is read only now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"ccl-plugins {version('ccl-plugins')}")
        parser.exit()

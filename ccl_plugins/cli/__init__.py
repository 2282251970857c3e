"""The command line.  A sub-command is two functions: what it takes, and what it does.

What a sub-command needs is imported when it runs, so that `ccl list` does not wait for torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.cli import check, export, information, new, train
from ccl_plugins.cli.commands import Mistake, command, told, understood
from ccl_plugins.kinds import KINDS, registry

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands

_KINDS = ", ".join(kind.name for kind in KINDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0; 1 for a failure found; 2 for a mistake in the call; 130 after Ctrl-C.  A mistake is told in one
    line; with ``CCL_STRICT=1`` it is raised, with its traceback.

    Args:
        arguments: The words after ``ccl``; by default those of the process.
    """
    options = _parser().parse_args(arguments)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `ccl list | head`; what is left must not be flushed into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        said = "; ".join(["interrupted", *getattr(error, "__notes__", ())])
        print(f"ccl: {said}", file=sys.stderr)
        return 130
    except (engine.RegistryError, Mistake, OSError) as error:
        if registry().strict:
            raise
        print(f"ccl: {told(error)}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ccl",
        description="Conditional contrastive learning as plug-ins on lightly.",
        epilog="'ccl COMMAND --help' shows an example of each.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (_add_list, _add_info, _add_doctor, train.add, _add_evaluate):
        add(commands)
    for module in (check, export, information, new):
        module.add(commands)
    return parser


class _Version(argparse.Action):
    """Prints the version, which is read only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import ccl_plugins

        print(f"ccl-plugins {ccl_plugins.__version__}")
        parser.exit()


# list


def _add_list(commands: Commands) -> None:
    parser = command(commands, "list", "List the components on offer.", "ccl list kernel")
    parser.add_argument("kind", nargs="?", metavar="KIND", help=f"one of: {_KINDS}")
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(run=_list)


def _list(options: argparse.Namespace) -> int:
    from ccl_plugins.cli.describe import listing

    table = listing(registry(), options.kind)
    print(table.json() if options.json else table)
    return 0


# info


def _add_info(commands: Commands) -> None:
    parser = command(
        commands,
        "info",
        "Show a component: parameters with defaults, documentation, file and plug-in.",
        "ccl info kernel rbf",
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of: {_KINDS}")
    parser.add_argument("name", metavar="NAME", help="its name, or PLUGIN/NAME")
    parser.set_defaults(run=_info)


def _info(options: argparse.Namespace) -> int:
    from ccl_plugins.cli.describe import describe

    print(describe(registry(), options.kind, options.name))
    return 0


# doctor


def _add_doctor(commands: Commands) -> None:
    parser = command(
        commands,
        "doctor",
        "Show plug-ins, what failed and why, and library versions; exit with 1 if something failed.",
        "ccl doctor --load",
    )
    parser.add_argument("--load", action="store_true", help="import every component too")
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from ccl_plugins.cli.doctor import examine

    report = examine(registry(), load=options.load)
    print(report.json() if options.json else report)
    return 0 if report.healthy else 1


# evaluate


def _add_evaluate(commands: Commands) -> None:
    parser = command(
        commands,
        "evaluate",
        "Measure the frozen features of finished runs again, and show all in one table.",
        "ccl evaluate runs/color_digits_fair",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a folder that `ccl train` left")
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> int:
    from ccl_plugins.runs.run import Run, side_by_side

    runs = [understood(Run, folder) for folder in options.runs]
    while runs:  # one after the other, since each has its networks on a GPU
        understood(runs.pop(0).evaluate)
    table = side_by_side([Run(folder) for folder in options.runs])
    print(table.json() if options.json else table)
    return 0

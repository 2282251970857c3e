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
from ccl_plugins.kinds import KINDS, registry

if TYPE_CHECKING:
    # argparse has no public name for what `add_subparsers` returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


_KINDS = ", ".join(kind.name for kind in KINDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 for a failure found, 2 for a mistake in the call.

    Args:
        arguments: The words after ``ccl``; by default those of the process.
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except engine.RegistryError as error:
        print(f"ccl: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `ccl list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ccl",
        description="Conditional contrastive learning as plug-ins on lightly.",
        epilog="'ccl COMMAND --help' shows an example of each.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (_add_list, _add_info, _add_doctor):
        add(commands)
    return parser


def _command(commands: Commands, name: str, doc: str, example: str) -> argparse.ArgumentParser:
    """A sub-command whose help ends with an example."""
    return commands.add_parser(
        name,
        help=doc,
        description=doc,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


class _Version(argparse.Action):
    """Prints the version, which is read only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import ccl_plugins

        print(f"ccl-plugins {ccl_plugins.__version__}")
        parser.exit()


# list


def _add_list(commands: Commands) -> None:
    parser = _command(commands, "list", "List the components on offer.", "ccl list kernel")
    parser.add_argument("kind", nargs="?", metavar="KIND", help=f"one of: {_KINDS}")
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(run=_list)


def _list(options: argparse.Namespace) -> int:
    from ccl_plugins.describe import listing

    table = listing(registry(), options.kind)
    print(table.json() if options.json else table)
    return 0


# info


def _add_info(commands: Commands) -> None:
    parser = _command(
        commands,
        "info",
        "Show a component: parameters with defaults, documentation, file and plug-in.",
        "ccl info kernel rbf",
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of: {_KINDS}")
    parser.add_argument("name", metavar="NAME", help="its name, or PLUGIN/NAME")
    parser.set_defaults(run=_info)


def _info(options: argparse.Namespace) -> int:
    from ccl_plugins.describe import describe

    print(describe(registry(), options.kind, options.name))
    return 0


# doctor


def _add_doctor(commands: Commands) -> None:
    parser = _command(
        commands,
        "doctor",
        "Show plug-ins, what failed and why, and library versions; exit with 1 if something failed.",
        "ccl doctor --load",
    )
    parser.add_argument("--load", action="store_true", help="import every component too")
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from ccl_plugins.doctor import examine

    report = examine(registry(), load=options.load)
    print(report.json() if options.json else report)
    return 0 if report.healthy else 1

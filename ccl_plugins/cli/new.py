"""``ccl new``: a package with a first component and its tests."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.cli.commands import command, reporting_mistakes
from ccl_plugins.kinds import KINDS, registry

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands


def add(commands: Commands) -> None:
    """Add the sub-command."""
    parser = command(
        commands,
        "new",
        "Write a package that offers a component of a kind, with tests that pass.",
        "ccl new ccl-ring --kind kernel",
    )
    kinds = ", ".join(kind.name for kind in KINDS)
    parser.add_argument("name", metavar="DIST", help="the name for pip install")
    parser.add_argument("--kind", required=True, metavar="KIND", help=f"one of: {kinds}")
    parser.add_argument(
        "--out", default=".", metavar="FOLDER", help="gets the folder DIST (%(default)s)"
    )
    parser.add_argument("--author", default="", metavar="NAME", help="the name in its license")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from importlib.metadata import version

    from ccl_plugins.scaffold import read_names, render, write

    with reporting_mistakes():
        names = read_names(registry(), options.name, options.kind)
        texts = render(names, author=options.author, version=version("ccl-plugins"))
    folder = Path(options.out) / names.distribution
    write(folder, texts)
    print(f"{folder}: the {names.kind} {names.component!r}")
    print(*(f"  {path}" for path in texts), sep="\n")
    print(f"next:\n  cd {folder}\n  pip install -e '.[dev]'\n  pytest")
    return 0

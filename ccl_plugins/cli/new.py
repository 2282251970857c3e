"""``ccl new``: a package with a first component and its tests."""

from __future__ import annotations

import argparse
from pathlib import Path

from ccl_plugins.cli.commands import KIND_NAMES, Command, argument, reporting_mistakes
from ccl_plugins.kinds import registry


def _run(options: argparse.Namespace) -> int:
    """Write a package that offers a component of a kind, with tests that pass."""
    from importlib.metadata import version

    from ccl_plugins.scaffold import read_names, render, write

    with reporting_mistakes():
        names = read_names(registry(), options.name, options.kind)
        texts = render(names, author=options.author, version=version("ccl-plugins"))
    folder = Path(options.out).expanduser() / names.distribution
    write(folder, texts)
    print(f"{folder}: the {names.kind} {names.component!r}")
    print(*(f"  {path}" for path in texts), sep="\n")
    print(f"next:\n  cd {folder}\n  pip install -e '.[dev]'\n  pytest")
    return 0


COMMAND = Command(
    _run,
    "ccl new ccl-ring --kind kernel",
    argument("name", metavar="DIST", help="the name of the package, for pip install"),
    argument("--kind", required=True, metavar="KIND", help=f"one of: {KIND_NAMES}"),
    argument(
        "--out", default=".", metavar="FOLDER", help="write FOLDER/DIST (default: %(default)s)"
    ),
    argument("--author", default="", metavar="NAME", help="the name in the package's license"),
)

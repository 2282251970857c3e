"""``ccl new``: a package with a first component and its tests."""

from __future__ import annotations

import argparse
from pathlib import Path

from ccl_plugins.commands.base import KIND_NAMES, reporting_mistakes
from ccl_plugins.kinds import registry


class New:
    """Write a package that offers a component of a kind, with tests that pass."""

    example = "ccl new ccl-ring --kind kernel"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="DIST", help="the name of the package, for pip install")
        parser.add_argument("--kind", required=True, metavar="KIND", help=f"one of: {KIND_NAMES}")
        parser.add_argument(
            "--out", default=".", metavar="FOLDER", help="write FOLDER/DIST (default: %(default)s)"
        )
        parser.add_argument(
            "--author", default="", metavar="NAME", help="the name in the package's license"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from importlib.metadata import version

        from ccl_plugins.start import read_names, render, write

        with reporting_mistakes():
            names = read_names(registry(), arguments.name, arguments.kind)
            texts = render(names, author=arguments.author, version=version("ccl-plugins"))
        folder = Path(arguments.out).expanduser() / names.distribution
        write(folder, texts)
        print(f"{folder}: the {names.kind} {names.component!r}")
        print(*(f"  {path}" for path in texts), sep="\n")
        print(f"next:\n  cd {folder}\n  pip install -e '.[dev]'\n  pytest")
        return 0

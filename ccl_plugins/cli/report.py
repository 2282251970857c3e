"""``ccl report``: runs in one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.cli.batch import attempt
from ccl_plugins.cli.commands import Command, argument, reporting_mistakes
from ccl_plugins.cli.evaluate import opened

if TYPE_CHECKING:
    from ccl_plugins.runs.pipeline import Run


def _run(options: argparse.Namespace) -> int:
    """Show in one HTML file what runs learned, what conditioning did, which is better, and if it is luck.

    Runs that differ in the seed alone are one column.  The file needs nothing else and loads nothing.  A
    run that cannot be read, or that has no checkpoint, is reported, and the others are shown.
    """
    from ccl_plugins.runs.report import report

    folders = list({Path(run).resolve(): Path(run) for run in options.runs}.values())
    runs: list[Run] = []
    missing: dict[str, str] = {}

    def read(folder: Path) -> None:
        run = opened(folder)
        with reporting_mistakes():
            _ = run.progress
        runs.append(run)

    for folder in folders:
        if len(folders) == 1:
            read(folder)
        elif reason := attempt(str(folder), read, folder):
            missing[str(folder)] = reason
    if not runs:
        return 1
    file = report(runs, Path(options.out).expanduser(), missing=missing)
    print(f"{file}: open it in a browser")
    return int(bool(missing))


COMMAND = Command(
    _run,
    "ccl report runs/color_digits_infonce-seed-* runs/color_digits_fair-seed-*",
    argument("runs", nargs="+", metavar="RUN", help="a folder that `ccl train` wrote"),
    argument(
        "--out",
        default="report.html",
        metavar="FILE.html",
        help="the file to write; one that is there is replaced (default: %(default)s)",
    ),
)

"""``ccl report``: runs in one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.cli.batch import RUNS, attempt_each
from ccl_plugins.cli.commands import Command, argument, reporting_mistakes
from ccl_plugins.cli.evaluate import opened

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run


def _run(options: argparse.Namespace) -> int:
    """Show in one HTML file what runs learned, what conditioning did, which is better, and if it is luck.

    Runs that differ in the seed alone are one column.  The file needs nothing else and loads nothing.  A
    run that cannot be read, or that has no checkpoint, is reported, and the others are shown.
    """
    from ccl_plugins.report import write_report

    runs: list[Run] = []

    def read(folder: Path) -> None:
        run = opened(folder)
        with reporting_mistakes():
            _ = run.progress
        runs.append(run)

    found = attempt_each(options.runs, read)
    missing = {str(folder): reason for folder, reason in found.items() if reason}
    if not runs:
        return 1
    file = write_report(runs, Path(options.out).expanduser(), missing=missing)
    print(f"{file}: open it in a browser")
    return int(bool(missing))


COMMAND = Command(
    _run,
    "ccl report runs/color_digits_infonce-seed-* runs/color_digits_fair-seed-*",
    RUNS,
    argument(
        "--out",
        default="report.html",
        metavar="FILE.html",
        help="the file to write; one that is there is replaced (default: %(default)s)",
    ),
)

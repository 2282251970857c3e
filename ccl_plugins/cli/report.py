"""``ccl report``: runs in one HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ccl_plugins.cli.batch import RUNS, compared
from ccl_plugins.cli.commands import FORMATS, Command, argument
from ccl_plugins.cli.evaluate import readable


def _run(options: argparse.Namespace) -> int:
    """Show in one HTML file what runs learned, what conditioning did, which is better, and if it is luck.

    Runs that differ in the seed alone are one column.  The file needs nothing else and loads nothing.  A
    run that cannot be read, or that has no checkpoint, is reported, and the others are shown.  With
    --format, the table of all numbers is printed too.
    """
    from ccl_plugins.experiments.results import result_of
    from ccl_plugins.report import write_report

    runs, missing = readable(options.runs)
    if not runs:
        return 1
    file = write_report([*runs.values()], Path(options.out).expanduser(), missing=missing)
    print(f"{file}: open it in a browser", file=sys.stderr if options.format else sys.stdout)
    if options.format:
        print(compared(map(result_of, runs.values())).written(options.format))
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
    argument("--format", choices=FORMATS, help="print the table of all numbers too, in this form"),
)

"""``ccl report``: runs in one HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ccl_plugins.commands.base import FORMATS, add_runs
from ccl_plugins.commands.batch import compared
from ccl_plugins.commands.evaluate import readable


class Report:
    """Show in one HTML file what runs learned, what conditioning did, and which run is better.

    Runs that differ only in the seed are one column. The file needs no other file and loads
    nothing. A run that cannot be read, or that has no checkpoint, is reported, and the others are
    shown. With --format, the table of all numbers is printed too.
    """

    example = "ccl report runs/color_digits_infonce-seed-* runs/color_digits_fair-seed-*"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_runs(parser)
        parser.add_argument(
            "--out",
            default="report.html",
            metavar="FILE.html",
            help="the file to write; one that is there is replaced (default: %(default)s)",
        )
        parser.add_argument(
            "--format", choices=FORMATS, help="print the table of all numbers too, in this form"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.experiments.results import result_of
        from ccl_plugins.report.page import write_report

        runs, missing = readable(arguments.runs)
        if not runs:
            return 1
        file = write_report([*runs.values()], Path(arguments.out).expanduser(), missing=missing)
        print(f"{file}: open it in a browser", file=sys.stderr if arguments.format else sys.stdout)
        if arguments.format:
            print(compared(map(result_of, runs.values())).written(arguments.format))
        return int(bool(missing))

"""``ccl inspect``: what is known of a pipeline's data and cost before it is trained."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from ccl_plugins.cli.commands import JSON, Command, argument, reporting_mistakes, show
from ccl_plugins.cli.tables import TextTable

if TYPE_CHECKING:
    from ccl_plugins.experiments.inspection import Inspection


def _run(options: argparse.Namespace) -> int:
    """Show a pipeline's columns, what looks wrong in its data, and what a step costs; nothing is kept."""
    show(options, lambda: _inspected(options))
    return 0


COMMAND = Command(
    _run,
    "ccl inspect examples/color_digits_fair.toml",
    argument("file", metavar="FILE.toml", help="a configuration file"),
    argument("--quick", action="store_true", help="decode no image file and make no step"),
    JSON,
)


class Shown(TextTable):
    """The columns as a table, and under it the rest; JSON has all of it."""

    def __init__(self, inspection: Inspection) -> None:
        super().__init__(inspection.columns, [*_lines(inspection)])
        self.inspection = inspection

    def json(self) -> str:
        """The inspection as a JSON object."""
        return json.dumps(asdict(self.inspection), indent=2)


def _lines(inspection: Inspection) -> list[str]:
    lines = [", ".join(f"{n} {split} samples" for split, n in inspection.samples.items())]
    if inspection.step:
        seconds, hours, gigabytes = inspection.step.values()
        whole = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
        lines.append(
            f"a step takes {seconds:.3g} s on this machine, the run about {whole} without evaluation;"
            f" {gigabytes:.1f} GB of memory"
        )
    return [*lines, *(f"- {note}" for note in inspection.notes)]


def _inspected(options: argparse.Namespace) -> Shown:
    from ccl_plugins.experiments.inspection import inspect_file

    with reporting_mistakes(options.file):
        return Shown(inspect_file(options.file, quick=options.quick))

"""``ccl inspect``: a pipeline's data and cost, before it is trained."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ccl_plugins.commands.base import add_json, add_set, message, reporting_mistakes, show
from ccl_plugins.commands.tables import TextTable
from ccl_registry import Mistake

if TYPE_CHECKING:
    from ccl_plugins.explore.inspection import Inspection


class Inspect:
    """Show a pipeline's columns, problems in its data, and the cost of a step, without writing files."""

    example = "ccl inspect examples/color_digits_fair.toml"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.toml", help="a configuration file")
        parser.add_argument(
            "--quick", action="store_true", help="read only the first image, and time no step"
        )
        add_set(parser, "file", "fit.batch_size=512")
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        table = show(arguments, lambda: _inspected(arguments))
        if not table.faults:
            return 0
        place = f"{arguments.file}: "
        *others, last = (place + each.removeprefix(place) for each in table.faults)
        for mistake in others:
            print(f"ccl: {mistake}", file=sys.stderr)
        raise Mistake(last)


class InspectionTable(TextTable):
    """The columns as a table, and the other facts below it; JSON has all of them."""

    def __init__(self, inspection: Inspection, faults: Sequence[str] = ()) -> None:
        super().__init__(inspection.columns, [*_lines(inspection)])
        self.inspection = inspection
        self.faults = [*faults]
        if inspection.unreadable:
            self.faults.append(
                "the run would stop at an image that cannot be read, as the notes say"
            )

    def __str__(self) -> str:
        return super().__str__() if self else "\n".join(self.notes)

    def json(self) -> str:
        """The inspection as a JSON object."""
        return json.dumps({**asdict(self.inspection), "faults": self.faults}, indent=2)


def _lines(inspection: Inspection) -> list[str]:
    lines = [", ".join(f"{n} {split} samples" for split, n in inspection.samples.items())]
    if len(inspection.samples) == 2 and all(row["column"] != "label" for row in inspection.columns):
        lines[0] += ", none of them with a label"
    if looked := sum(inspection.looked.values()):
        lines[0] += f"; {looked} of {sum(inspection.samples.values())} images were looked at"
    if inspection.step:
        seconds, hours, gigabytes = inspection.step.values()
        whole = f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"
        lines.append(
            f"a step takes {seconds:.3g} s on this machine, the run about {whole} without evaluation;"
            f" {gigabytes:.1f} GB of memory"
        )
    return [*lines, *(f"- {note}" for note in inspection.notes)]


def _inspected(options: argparse.Namespace) -> InspectionTable:
    from ccl_plugins.experiments.configuration import parse
    from ccl_plugins.explore.inspection import Faulty, inspect_file

    with reporting_mistakes(options.file):
        changes = [parse(text) for text in options.set]
        try:
            return InspectionTable(inspect_file(options.file, quick=options.quick, changes=changes))
        except Faulty as error:
            return InspectionTable(error.inspection, [message(each) for each in error.faults])

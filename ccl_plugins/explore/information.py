"""``ccl information``: the information of conditions about a column, in bits."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ccl_plugins.commands.base import add_format, add_json, reporting_mistakes, show
from ccl_plugins.commands.tables import TextTable
from ccl_registry import Mistake

if TYPE_CHECKING:
    from ccl_plugins.information.plane import Point


class Information:
    """Show the information of a pipeline's categorical conditions about a column, in bits."""

    example = "ccl information examples/weak_labels.toml --values k=1,2,3 --plot information.png"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.toml", help="a configuration file")
        parser.add_argument(
            "--against", default="label", metavar="COLUMN", help="the target T (default: label)"
        )
        parser.add_argument(
            "--values", metavar="PARAMETER=V,V,...", help="values of one parameter of a condition"
        )
        parser.add_argument("--on", metavar="NAME", help="the condition whose parameter it is")
        parser.add_argument("--plot", metavar="FILE.png", help="draw the values into this file")
        add_format(parser)
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        show(arguments, lambda: _table(arguments))
        return 0


def _table(options: argparse.Namespace) -> TextTable:
    from ccl_plugins.experiments.composition import Composition
    from ccl_plugins.experiments.information import plane, sweep
    from ccl_plugins.information.plane import best, plot

    if options.values is None and (options.plot or options.on):
        raise Mistake("--plot and --on belong to --values")
    against = options.against
    with reporting_mistakes(options.file):
        pipeline = Composition.from_toml(options.file)
    with reporting_mistakes():
        if options.values is None:
            points, left_out = plane(pipeline, against)
            notes = [f"left out: {line}" for line in left_out]
            notes += [
                f"{p.name} has one value, so it tells nothing" for p in points if p.values == 1
            ]
            notes += [
                f"{p.name} has a value of its own for each sample, so it seems to tell all about {against}"
                for p in points
                if p.values == p.samples > 1
            ]
        else:
            parameter, values = _read_values(options.values)
            points = sweep(pipeline, parameter, values, against, options.on)
            notes = [
                f"{parameter} = {best(points).name}: I(Z;{against}) and -H(Z|{against}), both brought"
                " to 0 to 1, cross nearest to it"
            ]
            if options.plot:
                plot(points, options.plot, parameter, against)
    return tabulate(points, against, notes)


def tabulate(points: Sequence[Point], against: str, notes: Sequence[str] = ()) -> TextTable:
    """The points as a table, in bits."""
    rows = [
        {
            "condition": point.name,
            "values": point.values,
            "samples": point.samples,
            f"I(Z;{against})": point.information.mutual,
            f"H(Z|{against})": point.information.conditional_entropy,
            "H(Z)": point.information.entropy,
        }
        for point in points
    ]
    return TextTable(rows, notes)


def _read_values(text: str) -> tuple[str, list[Any]]:
    """``k=1,2,3`` as a name and its values, which have TOML's syntax."""
    parameter, _, values = text.partition("=")
    try:
        listed = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"--values {text}: {error}; write PARAMETER=V,V,... as k=1,2,3") from error
    if not parameter or not listed:
        raise Mistake(f"--values {text}: write PARAMETER=V,V,... as k=1,2,3")
    return parameter.strip(), listed

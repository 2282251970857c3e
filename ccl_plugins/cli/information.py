"""The sub-command ``ccl information``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ccl_plugins.cli.commands import Mistake, command, compose, understood

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands


def add(commands: Commands) -> None:
    """Add it to the others."""
    parser = command(
        commands,
        "information",
        "Show what a pipeline's static categorical conditions tell about a column, in bits.",
        "ccl information examples/weak_labels.toml --sweep k=1,2,3 --plot information.png",
    )
    parser.add_argument("file", metavar="FILE.toml", help="a pipeline")
    parser.add_argument(
        "--against", default="label", metavar="COLUMN", help="the target T (%(default)s)"
    )
    parser.add_argument(
        "--sweep", metavar="PARAMETER=V,V,...", help="a condition for each value of a parameter"
    )
    parser.add_argument("--on", metavar="NAME", help="the condition that is swept")
    parser.add_argument("--plot", metavar="FILE.png", help="a picture of the sweep")
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ccl_plugins.information import plane

    if options.sweep is None and (options.plot or options.on):
        raise Mistake("--plot and --on belong to a --sweep")
    pipeline = compose(options.file, {})
    if options.sweep is None:
        points, left_out = understood(plane.plane, pipeline, options.against)
        notes = [f"left out: {line}" for line in left_out]
    else:
        parameter, values = _read_sweep(options.sweep)
        points = understood(plane.sweep, pipeline, parameter, values, options.against, options.on)
        notes = [
            f"{parameter} = {plane.best(points).name}: I(Z;{options.against}) and"
            f" -H(Z|{options.against}), both brought to 0 to 1, cross nearest to it"
        ]
        if options.plot:
            plane.plot(points, options.plot, parameter, options.against)
    table = plane.tabulate(points, options.against, notes)
    print(table.json() if options.json else table)
    return 0


def _read_sweep(text: str) -> tuple[str, list[Any]]:
    """``k=1,2,3`` as a name and values, which are written as in a pipeline's file."""
    import tomllib

    parameter, _, values = text.partition("=")
    try:
        found = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"--sweep {text}: {error}; write PARAMETER=V,V,... as k=1,2,3") from error
    if not parameter or not found:
        raise Mistake(f"--sweep {text}: write PARAMETER=V,V,... as k=1,2,3")
    return parameter.strip(), found

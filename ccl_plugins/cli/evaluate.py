"""``ccl evaluate``: measure finished runs again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ccl_plugins.cli.commands import command, reporting_mistakes
from ccl_plugins.cli.tables import TextTable

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands
    from ccl_plugins.runs.pipeline import Run


def add(commands: Commands) -> None:
    """Add the sub-command."""
    parser = command(
        commands,
        "evaluate",
        "Measure the frozen features of finished runs again, and show all in one table.",
        "ccl evaluate runs/color_digits_fair",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a folder that `ccl train` wrote")
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ccl_plugins.runs.pipeline import load

    with reporting_mistakes():
        runs = [load(folder) for folder in options.runs]
    while runs:  # and no longer than it is measured, since its networks may be on a GPU
        _measure(runs.pop(0))
    table = side_by_side([load(folder) for folder in options.runs])
    print(table.json() if options.json else table)
    return 0


def _measure(run: Run) -> None:
    with reporting_mistakes():
        _ = run.parts, run.splits  # reads weights and data
    run.evaluate()


def side_by_side(runs: Sequence[Run]) -> TextTable:
    """The metrics of several runs, a column for each; two where a run was measured before training too."""
    columns: dict[str, Mapping[str, float]] = {}
    for run in runs:
        if run.before:
            columns[f"{run.path.name}, before"] = run.before
        columns[run.path.name] = run.metrics
    names = dict.fromkeys(name for metrics in columns.values() for name in metrics)
    return TextTable(
        [
            {"metric": name, **{title: metrics.get(name) for title, metrics in columns.items()}}
            for name in names
        ]
    )

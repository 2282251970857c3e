"""``ccl evaluate``: measure finished runs again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ccl_plugins.cli.commands import JSON, Command, argument, reporting_mistakes, show
from ccl_plugins.cli.tables import TextTable

if TYPE_CHECKING:
    from ccl_plugins.runs.pipeline import Run


def _run(options: argparse.Namespace) -> int:
    """Measure the frozen features of finished runs again, and show all in one table."""
    show(options, lambda: _measured(options.runs))
    return 0


COMMAND = Command(
    _run,
    "ccl evaluate runs/color_digits_fair",
    argument("runs", nargs="+", metavar="RUN", help="a folder that `ccl train` wrote"),
    JSON,
)


def _measured(folders: Sequence[str]) -> TextTable:
    """The new metrics of runs."""
    from ccl_plugins.runs.pipeline import load

    with reporting_mistakes():
        runs = [load(folder) for folder in folders]
    while runs:
        measure_run(runs.pop(0))  # and let go of its networks, which may be on a GPU
    return side_by_side([load(folder) for folder in folders])


def measure_run(run: Run, file: str = "") -> None:
    """Evaluate a run; errors of reading its weights and data are mistakes of the user, in ``file``."""
    with reporting_mistakes(file):
        _ = run.parts, run.splits
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

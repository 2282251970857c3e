"""``ccl evaluate``: measure finished runs again."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ccl_plugins.commands.base import add_format, add_json, add_runs, reporting_mistakes, show
from ccl_plugins.commands.batch import attempt_each, compared

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.experiments.results import Result


class Evaluate:
    """Measure the frozen features of runs again, and show all in one table.

    A run that was interrupted is measured with its newest checkpoint. A run that cannot be measured
    is reported, and the others are shown.
    """

    example = "ccl evaluate runs/color_digits_fair"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_runs(parser)
        add_format(parser)
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.experiments.results import Result

        results: dict[Path, Result] = {}

        def measure(folder: Path) -> None:
            results[folder] = measured(opened(folder))

        def work() -> object:
            for folder, reason in attempt_each(arguments.runs, measure).items():
                if reason:
                    results[folder] = Result(folder, state=f"failed: {reason}")
            return compared(results.values())

        show(arguments, work)
        return int(any(each.state.startswith("failed") for each in results.values()))


def opened(folder: str | Path) -> Run:
    """The run in a folder; mistakes in its record are reported with the record's file."""
    from ccl_plugins.experiments.pipeline import load

    with reporting_mistakes():
        run = load(folder)
    with reporting_mistakes(str(run.folder.record)):
        _ = run.dataset, run.transform, run.recorded.choices["backbone"]
    return run


def readable(folders: Iterable[str]) -> tuple[dict[Path, Run], dict[str, str]]:
    """The runs in some folders that have weights, and the reasons why others cannot be read."""
    runs: dict[Path, Run] = {}

    def read(folder: Path) -> None:
        run = opened(folder)
        with reporting_mistakes():
            _ = run.progress
        runs[folder] = run

    failed = attempt_each(folders, read)
    return runs, {str(folder): reason for folder, reason in failed.items() if reason}


def measured(run: Run, file: str = "") -> Result:
    """Evaluate a run; errors of reading its weights and data are mistakes of the user, in ``file``."""
    from ccl_plugins.experiments.results import result_of

    with reporting_mistakes(file):
        _ = run.method, run.splits, run.recorded.built_evaluators
    run.evaluate()
    return result_of(run)

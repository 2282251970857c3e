"""``ccl sweep``: train one pipeline with many values of its keys."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.commands.base import Failed, add_format, add_set, reporting_mistakes
from ccl_plugins.commands.tables import TextTable

if TYPE_CHECKING:
    from ccl_plugins.experiments.results import Group
    from ccl_plugins.sweep.cells import Cell
    from ccl_plugins.sweep.sweep import Sweep

PATIENCE = 2.0
"""Seconds between two checks of other processes' progress."""

REPORTED = 40
"""The most runs for which a sweep draws a report; the pictures of more take minutes."""


class SweepCommand:
    """Train a pipeline with every combination of values, or search for the best ones.

    FILE names a pipeline's file (base), or has it as a table, a folder (out), a metric, and a table [grid]
    of keys with lists of values, several such tables [[grid]], or a table [search] with trials and lists or
    ranges. All cells are checked before the first is trained; a cell that fails is reported, and
    the others go on. Continue a stopped sweep with --resume, from the last checkpoint of each cell;
    the same command lets further machines that see the folder take part.
    """

    example = "ccl sweep examples/sweeps/kernel_scale.toml --jobs 2"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.toml", help="the sweep")
        parser.add_argument(
            "--jobs",
            type=_jobs,
            default=1,
            metavar="N",
            help="processes that train at the same time; 1: this one, with its progress bars",
        )
        parser.add_argument(
            "--launcher",
            choices=("local", "slurm"),
            default="local",
            help="where they run; the file's table [slurm] has the options of submitit",
        )
        parser.add_argument(
            "--out", metavar="DIR", help="the sweep's folder, in place of the file's out"
        )
        add_set(parser, "base", "dataset.root=mnist")
        parser.add_argument(
            "--resume", action="store_true", help="go on with a sweep that was stopped"
        )
        parser.add_argument("--quiet", action="store_true", help="no progress bars")
        add_format(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.experiments.configuration import parse
        from ccl_plugins.experiments.train import RunInterrupted
        from ccl_plugins.sweep import cells as sweeps
        from ccl_plugins.sweep.sweep import Sweep
        from ccl_plugins.training.same_data import OtherData

        with reporting_mistakes():
            sweep = Sweep.from_toml(arguments.file, [parse(text) for text in arguments.set])
            if arguments.out is not None:
                sweep = replace(sweep, out=Path(arguments.out).expanduser())
        with reporting_mistakes(arguments.file):
            sweep.check()
            notes = sweep.remarks()
            sweeps.begin(sweep, resume=arguments.resume)
        for note in notes:
            _tell(note)
        stopped: BaseException | None = None
        try:
            if arguments.jobs == 1 and arguments.launcher == "local":
                sweeps.work(sweep, progress=not arguments.quiet, tell=_tell)
            else:
                _wait(sweep, arguments)
        except (RunInterrupted, KeyboardInterrupt) as error:
            stopped = error
        except OtherData as error:
            raise engine.Mistake(f"{arguments.file}: {error}") from error
        cells = sweeps.cells_of(sweep)
        files = sweeps.write_results(sweep, cells)
        if stopped is None and any(each.state == "done" for each in cells):
            from ccl_plugins.experiments.pipeline import Run
            from ccl_plugins.report.page import write_report

            done = [Run(sweep.out / "cells" / each.name) for each in cells if each.state == "done"]
            if len(done) <= REPORTED:
                files.append(write_report(done, sweep.out / "report.html"))
            else:
                _tell(
                    f"{len(done)} runs: their report takes minutes: ccl report {sweep.out}/cells/*"
                )
        print(_table(sweep, cells, files, notes).written(arguments.format))
        if isinstance(stopped, RunInterrupted):
            print("ccl: stopped; --resume goes on with this sweep", file=sys.stderr)
            return 130
        if stopped is not None:
            raise stopped
        return int(any(each.state not in ("done", "pruned") for each in cells))


def _tell(line: str) -> None:
    print(engine.escaped(line, 2000), file=sys.stderr, flush=True)


def _wait(sweep: Sweep, options: argparse.Namespace) -> None:
    """Start processes, and report on the cells until all have ended."""
    import time

    from ccl_plugins.sweep import cells as sweeps
    from ccl_plugins.sweep.sweep import named

    with reporting_mistakes(options.file):
        jobs = sweeps.launch(sweep, options.jobs, options.launcher)
    _tell(f"{len(jobs)} processes; their output is in {sweep.out / 'logs'}")
    known: dict[str, str] = {}
    try:
        while True:
            ended = all(job.done() for job in jobs)
            for cell in sweeps.cells_of(sweep):
                if known.get(cell.name) != cell.state and cell.state != "waiting":
                    known[cell.name] = cell.state
                    _tell(f"cell {cell.name} {cell.state}: {named(cell.values)}")
            if ended:
                break
            time.sleep(PATIENCE)
    except KeyboardInterrupt:
        for job in jobs:
            job.cancel()
        raise
    reasons = [reason for job in jobs if (reason := job.exception()) is not None]
    if len(reasons) == len(jobs):
        raise Failed(f"no process could work: {' '.join(str(reasons[0]).split())}")


def _table(
    sweep: Sweep, cells: Sequence[Cell], files: Sequence[Any], notes: Sequence[str]
) -> TextTable:
    """The configurations, the best first."""
    from ccl_plugins.experiments.results import spread
    from ccl_plugins.sweep import cells as sweeps

    done = [each for each in cells if each.state == "done"]
    own = "the test split of the sweep's validation data"
    part = "a part of the training split" if sweep.validation is None else own
    found = (each.validation.get(sweep.metric) for each in done)
    sizes = {each.samples for each in found if each and each.samples}
    of = f" of {', '.join(map(str, sorted(sizes)))} samples" if sizes else ""
    groups = sweeps.configurations(sweep, cells)
    notes = [
        f"{sweep.metric}: the rows are ordered by validation, {part}{of}",
        *(_uncertain(sweep, groups, done) if groups else ()),
        *notes,
        f"{len(done)} of {len(cells)} cells done; written to {', '.join(map(str, files))}",
    ]
    rows = []
    for group in groups:
        finished, means = sweeps.done(group), sweeps.bounded(sweep, group)
        states = dict.fromkeys(each.state for each in group.runs if each.state != "done")
        beyond = ["beyond a bound"] if sweeps.excess(sweep, group) else []
        rows.append(
            {
                "values": group.name or "(one configuration)",
                "n": len(finished.runs) if len(group.runs) > 1 else None,
                "before": spread(*finished.estimate(sweep.metric, "before")[1:3]),
                "validation": str(finished.estimate(sweep.metric, "validation")),
                "test": spread(*finished.estimate(sweep.metric, "test")[1:3]),
                **{name: means.get(name) for name in sweep.subject_to},
                "state": "; ".join([*states, *beyond]),
            }
        )
    return TextTable(rows, notes)


def _uncertain(sweep: Sweep, groups: Sequence[Group], done: Sequence[Cell]) -> Iterator[str]:
    """Notes on the limits of the order of configurations."""
    first, *others = (each.estimate(sweep.metric, "validation") for each in groups)
    if first.interval:
        low, high = first.interval
        if near := sum(low <= (each.mean or math.nan) <= high for each in others):
            which = "1 other lies" if near == 1 else f"{near} others lie"
            yield f"{which} within the interval of the first: these samples hardly distinguish them"
    names = {name: None for each in done for name in each.test if name not in each.validation}
    if names:
        yield f"{', '.join(names)}: no number for the choice of cells, so no cell is chosen by it"


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, not {text!r}")
    return int(text)

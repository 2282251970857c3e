"""``ccl train``: train and evaluate pipelines from files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.cli.commands import Command, Mistake, argument, reporting_mistakes
from ccl_plugins.cli.evaluate import measure_run, side_by_side

if TYPE_CHECKING:
    from ccl_plugins.runs.pipeline import Pipeline
    from ccl_plugins.runs.train import Plan

_VALUES: dict[str, Any] = {
    "epochs": int,
    "batch_size": int,
    "seed": int,
    "devices": int,
    "nodes": int,
    "precision": str,
    "accumulate": int,
    "micro_batch": int,
    "clip": float,
    "keep_last": int,
}
"""Settings of ``[fit]`` that the command line takes a value for."""

_SETTINGS = (*_VALUES, "compile", "detect_anomaly")


def _run(options: argparse.Namespace) -> int:
    """Train each FILE into DIR/<name of the file>, evaluate it, and show all in one table."""
    from ccl_plugins.runs.pipeline import Pipeline, load
    from ccl_plugins.runs.train import RunInterrupted, check, check_installed, is_first
    from ccl_plugins.training.monitor import NotFinite

    files = {Path(file).stem: file for file in options.files}
    if len(files) < len(options.files):
        raise Mistake(f"two files of one name would be one run: {', '.join(options.files)}")
    folders = {name: Path(options.out).expanduser() / name for name in files}
    # All files and folders are checked before the first is trained, which may take hours.
    if options.resume:
        for folder in folders.values():
            check_installed(folder)
    plans = {}
    settings = {k: v for k in _SETTINGS if (v := getattr(options, k)) is not None}
    for name, file in files.items():
        with reporting_mistakes(file):
            pipeline = Pipeline.from_toml(file, **settings)
            existing = {"resume": options.resume, "overwrite": options.overwrite}
            plans[name] = pipeline, check(pipeline, folders[name], **existing)
    for name, (pipeline, plan) in plans.items():
        try:
            _train(pipeline, plan, name, files[name], options.quiet)
        except RunInterrupted as stopped:
            print(f"ccl: {stopped}", file=sys.stderr)
            return 130
        except NotFinite as error:
            print(f"ccl: {folders[name]}: {error}", file=sys.stderr)
            return 1
    if is_first():
        print(side_by_side([load(folder) for folder in folders.values()]))
    return 0


def _train(pipeline: Pipeline, plan: Plan, name: str, file: str, quiet: bool) -> None:
    """Train and evaluate one file."""
    from ccl_plugins.runs.pipeline import Run
    from ccl_plugins.runs.train import is_first, prepare, train
    from ccl_plugins.training.fitting import CannotBegin

    folder = plan.layout.folder
    if not quiet:
        print(f"{name}: {pipeline.choices['objective']!r} -> {folder}", file=sys.stderr)

    def before(metrics: Mapping[str, float]) -> None:
        values = ", ".join(f"{key} {value:.4g}" for key, value in metrics.items())
        print(f"{name}, before training: {values}", file=sys.stderr)

    with reporting_mistakes(file):
        prepared = prepare(plan)
    try:
        train(prepared, progress=not quiet, before=before)
    except CannotBegin:
        with reporting_mistakes(file):
            raise
    if is_first():
        measure_run(Run(folder, pipeline), file)


COMMAND = Command(
    _run,
    "ccl train examples/color_digits_infonce.toml examples/color_digits_fair.toml",
    argument("files", nargs="+", metavar="FILE.toml", help="a configuration file"),
    argument(
        "--out", default="runs", metavar="DIR", help="the folder of the runs (default: %(default)s)"
    ),
    argument("--resume", action="store_true", help="continue runs that were stopped"),
    argument("--overwrite", action="store_true", help="delete runs in these folders"),
    *(
        argument(f"--{name.replace('_', '-')}", type=kind, help=f"in place of the file's {name}")
        for name, kind in _VALUES.items()
    ),
    argument("--compile", action="store_const", const=True, help="compile networks and objective"),
    argument(
        "--detect-anomaly", action="store_const", const=True, help="look for NaN in every step"
    ),
    argument("--quiet", action="store_true", help="no progress bar"),
)

"""The sub-command ``ccl train``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.cli.commands import Mistake, command, compose, of, understood

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands

_VALUES: dict[str, Any] = {
    "epochs": int,
    "batch-size": int,
    "seed": int,
    "devices": int,
    "nodes": int,
    "precision": str,
    "accumulate": int,
    "micro-batch": int,
    "clip": float,
    "keep-last": int,
}
"""Settings of ``[fit]`` that take a value on the command line."""


def add(commands: Commands) -> None:
    """Add it to the others."""
    parser = command(
        commands,
        "train",
        "Train each FILE into DIR/<name of the file>, evaluate it, and show all in one table.",
        "ccl train examples/color_digits_infonce.toml examples/color_digits_fair.toml",
    )
    parser.add_argument("files", nargs="+", metavar="FILE.toml", help="a pipeline")
    parser.add_argument(
        "--out", default="runs", metavar="DIR", help="where the runs go (%(default)s)"
    )
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue runs that were stopped")
    existing.add_argument("--overwrite", action="store_true", help="delete runs that are there")
    for name, kind in _VALUES.items():
        where = name.replace("-", "_")
        parser.add_argument(f"--{name}", type=kind, help=f"in place of the file's {where}")
    parser.add_argument("--compile", action="store_true", help="compile networks and objective")
    parser.add_argument("--detect-anomaly", action="store_true", help="look for NaN in every step")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=_run)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of ``[fit]``."""
    named = {name.replace("-", "_") for name in _VALUES}
    given = {k: v for k, v in vars(options).items() if k in named and v is not None}
    switches = {k: True for k in ("compile", "detect_anomaly") if getattr(options, k)}
    return {**given, **switches}


def _run(options: argparse.Namespace) -> int:
    from ccl_plugins.pipeline.requirements import check_columns
    from ccl_plugins.runs.run import Run, side_by_side
    from ccl_plugins.runs.train import RunInterrupted, check_folder, check_offered, is_first, train
    from ccl_plugins.training.sampling import check_processes

    named = {Path(file).stem: file for file in options.files}
    if len(named) < len(options.files):
        raise Mistake(f"two files of one name would be one run: {', '.join(options.files)}")
    existing = {"resume": options.resume, "overwrite": options.overwrite}
    folders = {name: Path(options.out) / name for name in named}
    # All files and folders are looked at before the first is trained: a mistake costs no hour.
    if options.resume:
        for folder in folders.values():
            check_offered(folder)
    pipelines = {name: compose(file, _settings(options)) for name, file in named.items()}
    for name, pipeline in pipelines.items():
        try:
            understood(check_processes, pipeline.settings)
            understood(check_columns, pipeline.build_evaluators(), pipeline.dataset)
            if is_first():
                understood(check_folder, folders[name], pipeline, **existing)
        except Mistake as mistake:
            raise of(named[name], mistake) from mistake
    runs = []
    for name, pipeline in pipelines.items():
        if not options.quiet:
            print(f"{name}: {pipeline.choices['objective']!r} -> {folders[name]}", file=sys.stderr)

        def before(metrics: Mapping[str, float], name: str = name) -> None:
            said = ", ".join(f"{key} {value:.4g}" for key, value in metrics.items())
            print(f"{name}, before training: {said}", file=sys.stderr)

        try:
            run = understood(
                train,
                pipeline,
                folders[name],
                progress=not options.quiet,
                before=before,
                **existing,
            )
            if is_first():
                understood(run.evaluate)
                runs.append(Run(run.path))  # without its networks, which may be on a GPU
        except Mistake as mistake:
            raise of(named[name], mistake) from mistake
        except RunInterrupted as stopped:
            print(f"ccl: {stopped}", file=sys.stderr)
            return 130
        except ArithmeticError as error:  # the loss is not finite
            print(f"ccl: {folders[name]}: {error}", file=sys.stderr)
            return 1
    if is_first():
        print(side_by_side(runs))
    return 0

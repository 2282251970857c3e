"""``ccl train``: train and evaluate pipelines from files."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.commands import docstrings
from ccl_plugins.commands.base import (
    Failed,
    about,
    add_format,
    add_set,
    message,
    reporting_mistakes,
)
from ccl_plugins.commands.batch import attempt, compared
from ccl_plugins.commands.evaluate import measured
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.messages import warnings_of
from ccl_plugins.files.processes import is_first
from ccl_plugins.kinds import registry
from ccl_plugins.training.settings import PLAIN, FitSettings
from ccl_registry import Mistake

if TYPE_CHECKING:
    from ccl_plugins.experiments.results import Result
    from ccl_plugins.experiments.train import Checked
    from ccl_plugins.protocols import Measurement


@dataclass(frozen=True)
class Job:
    """A file that is trained into a folder.

    Args:
        file: The file.
        folder: The folder of its run.
        settings: Settings of ``[fit]`` that replace the file's.
        changes: Other values that replace the file's.
    """

    file: str
    folder: Path
    settings: Mapping[str, Any]
    changes: Sequence[tuple[Sequence[str], Any]] = ()


class Train:
    """Train each FILE into DIR/<name of the file>, evaluate it, and show all in one table.

    All files are checked, and their data are read, before the first is trained.  A file that fails later is
    reported, and the others go on.
    """

    example = "ccl train examples/color_digits_infonce.toml examples/color_digits_fair.toml"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE.toml", help="a configuration file")
        parser.add_argument(
            "--out",
            default="runs",
            metavar="DIR",
            help="the folder of the runs (default: %(default)s)",
        )
        parser.add_argument("--resume", action="store_true", help="continue runs that were stopped")
        parser.add_argument("--overwrite", action="store_true", help="delete runs in these folders")
        parser.add_argument(
            "--seeds",
            type=_seeds,
            metavar="0,1,2",
            help="train each file with each of these seeds, into DIR/NAME-seed-0, ...",
        )
        add_set(parser, "file", "objective.kernel.scale=0.2")
        parser.add_argument("--quiet", action="store_true", help="no progress bar")
        add_format(parser)
        parser.add_argument(
            "--launcher",
            choices=("local", "slurm"),
            help="train each file in a job, which resumes after it was stopped",
        )
        parser.add_argument(
            "--slurm",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="an option of submitit for jobs, such as timeout_min=600; may be repeated",
        )
        _add_settings(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.experiments.results import Result
        from ccl_plugins.experiments.train import RunInterrupted

        jobs = _jobs(arguments)
        ready = _checked(jobs, arguments)
        if arguments.launcher:
            return _submit(jobs, ready, arguments)
        if arguments.slurm:
            raise Mistake("--slurm sets arguments of jobs: give --launcher slurm")
        results = [Result(job.folder, state="not begun") for job in jobs]
        # A mistake in the only file is no failed run among others.
        passing = (RunInterrupted, *([Mistake] if len(jobs) == 1 else []))
        stopped: BaseException | None = None

        def work(i: int) -> None:
            def before(untrained: Mapping[str, Measurement]) -> None:
                results[i] = Result(jobs[i].folder, untrained, state="stopped")

            results[i] = Result(jobs[i].folder, state="stopped")
            results[i] = _train(jobs[i], ready[i], arguments.quiet, before)

        for i, (job, checked) in enumerate(zip(jobs, ready, strict=True)):
            try:
                with _warnings_of(job, jobs):
                    reason = ""
                    if not is_first():
                        work(i)  # Lightning ends all processes if one of them fails
                    else:
                        reason = attempt(job.file, work, i, passing=passing)
                if reason:
                    results[i] = replace(results[i], state=f"failed: {reason}")
                    if checked.pipeline.settings.processes > 1:
                        break  # the other processes have ended, or wait for this one
            except RunInterrupted as error:
                results[i] = replace(results[i], state=f"step {error.step} of {error.total}")
                stopped = error
                break
            except KeyboardInterrupt as error:
                stopped = error
                break
        if is_first():
            print(compared(results).written(arguments.format))
        if isinstance(stopped, RunInterrupted):
            if is_first():
                print(f"ccl: {stopped}", file=sys.stderr)
            return 130
        if stopped is not None:
            raise stopped
        return int(any(each.state for each in results))


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting of training that is not a component."""
    group = parser.add_argument_group("settings of training, which replace those in the file")
    documented = docstrings.arguments(FitSettings.__doc__ or "")
    for setting in PLAIN:
        read = setting.metadata["read"]
        reading = {"action": "store_const", "const": True} if read is bool else {"type": read}
        text = documented[setting.name].partition(":")[2].replace("``", "").replace("%", "%%")
        option = f"--{setting.name.replace('_', '-')}"
        group.add_argument(option, help=" ".join(text.split()), **reading)


def _warnings_of(job: Job, jobs: Sequence[Job]) -> AbstractContextManager[None]:
    """Name the file of a job in its warnings, if there are several."""
    several = len({each.file for each in jobs}) > 1
    return warnings_of(job.file, again=True) if several else nullcontext()


def _submit(jobs: Sequence[Job], ready: Sequence[Checked], options: argparse.Namespace) -> int:
    """Submit each run as a job; on this machine, wait for them.

    A job trains the present content of the file, with its overrides.
    """
    from ccl_plugins.experiments.configuration import parse
    from ccl_plugins.experiments.jobs import Training, submit

    first = [f"--{name}" for name in ("resume", "overwrite") if getattr(options, name)]
    trainings = {}
    for job, checked in zip(jobs, ready, strict=True):
        folder = job.folder.resolve()
        file = folder / "logs" / f"{folder.name}.toml"
        with atomic_write(file) as temporary:  # never through a link
            shutil.copyfile(job.file, temporary)
        settings = [f"fit.{name}={json.dumps(value)}" for name, value in job.settings.items()]
        changes = [*options.set, *settings]
        arguments = [str(file), "--out", str(folder.parent), "--quiet"]
        arguments += [word for change in changes for word in ("--set", change)]
        fit = checked.pipeline.settings
        trainings[folder] = Training(arguments, first), fit.nodes, fit.devices
    given = dict(parse(text) for text in options.slurm)
    slurm = {".".join(keys): value for keys, value in given.items()}
    with reporting_mistakes("--slurm"):
        submitted = submit(trainings, options.launcher, slurm)
    for folder, started in submitted.items():
        print(f"{folder}: job {started.job_id}, output in {folder / 'logs'}", file=sys.stderr)
    if options.launcher == "slurm":
        return 0
    failed = 0
    for folder, started in submitted.items():
        if (error := started.exception()) is not None:
            print(f"ccl: {folder}: {str(error).splitlines()[-1]}", file=sys.stderr)
            failed = 1
    return failed


def _jobs(options: argparse.Namespace) -> list[Job]:
    """The jobs: each file, with each seed."""
    from ccl_plugins.experiments.configuration import parse

    given = {setting.name: getattr(options, setting.name) for setting in PLAIN}
    settings = {name: value for name, value in given.items() if value is not None}
    changes = [parse(text) for text in options.set]
    named = [*settings, *(["seed"] if options.seeds else [])]
    for keys, _ in changes:
        if keys[0] == "fit" and keys[1:2] and keys[1] in named:
            raise Mistake(f"--set {'.'.join(keys)} and the option for {keys[1]}: give one of them")
    if options.seeds and "seed" in settings:
        raise Mistake("--seed is one seed and --seeds are several: give only one of these options")
    jobs = []
    for name, file in zip(_names(options.files), options.files, strict=True):
        for seed in options.seeds or [None]:
            folder = name if seed is None else f"{name}-seed-{seed}"
            own = settings if seed is None else {**settings, "seed": seed}
            jobs.append(Job(file, Path(options.out).expanduser() / folder, own, changes))
    places = [os.path.realpath(job.folder) for job in jobs]
    for job, place in zip(jobs, places, strict=True):
        if places.count(place) > 1:
            raise Mistake(f"{job.file}: two runs would have the folder {job.folder}: rename a file")
    return jobs


def _seeds(text: str) -> list[int]:
    """``0,1,2`` as different whole numbers."""
    words = [word.strip() for word in text.split(",")]
    seeds = [int(word) for word in words if word.isdecimal()]
    if len(set(seeds)) < len(words):
        raise argparse.ArgumentTypeError(
            f"must be different whole numbers of 0 or more, such as 0,1,2, not {text!r}"
        )
    return seeds


def _names(files: Sequence[str]) -> list[str]:
    """The name of each file's run: the file's name, with as many folders as make it unique."""
    parts = [Path(os.path.abspath(file)).with_suffix("").parts for file in files]
    lengths = [1] * len(files)
    while True:
        names = ["-".join(p[-n:]) for p, n in zip(parts, lengths, strict=True)]
        same = [i for i, name in enumerate(names) if names.count(name) > 1]
        if not same:
            return names
        for i in same:
            lengths[i] += 1
            if lengths[i] > len(parts[i]):
                raise Mistake(f"{files[i]} is given twice")


def _checked(jobs: Sequence[Job], options: argparse.Namespace) -> list[Checked]:
    """The pipelines of all jobs, checked before the first is trained, which may take hours.

    Raises:
        Mistake: For the last file with a mistake; for each other mistake a line is printed.
    """
    from ccl_plugins.experiments.pipeline import Pipeline
    from ccl_plugins.experiments.train import check_installed, check_run, prepare, rehearse

    ready: list[Checked] = []
    mistakes: list[str] = []

    def compose(job: Job) -> None:
        if options.resume:
            check_installed(job.folder)
        pipeline = Pipeline.from_toml(job.file, changes=job.changes, **job.settings)
        existing = {"resume": options.resume, "overwrite": options.overwrite}
        ready.append(check_run(pipeline, job.folder, **existing))

    def try_out(job: Job) -> None:
        rehearse(prepare(ready[jobs.index(job)]))

    # The only file is prepared when it is trained, at once.
    for work in (compose, try_out) if len(jobs) > 1 else (compose,):
        for job in jobs:
            try:
                with reporting_mistakes(job.file), _warnings_of(job, jobs):
                    work(job)
            except (Mistake, OSError) as error:
                if registry().strict or len(jobs) == 1:
                    raise
                mistakes.append(about(job.file, message(error)))
        if mistakes:
            for text in mistakes[:-1]:
                print(f"ccl: {text}", file=sys.stderr)
            raise Mistake(mistakes[-1])
    return ready


def _train(
    job: Job, checked: Checked, quiet: bool, before: Callable[[Mapping[str, Measurement]], None]
) -> Result:
    """Train and evaluate one file."""
    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.experiments.results import Result
    from ccl_plugins.experiments.train import prepare, train
    from ccl_plugins.figures.board import show_figures
    from ccl_plugins.training.fitting import CannotBegin
    from ccl_plugins.training.interrupt import LostProcess
    from ccl_plugins.training.step_checks import NotFinite

    pipeline: Any = checked.pipeline
    if not quiet and is_first():
        print(f"{job.file}: {pipeline.choices['objective']!r} -> {job.folder}", file=sys.stderr)

    def tell(untrained: Mapping[str, Measurement]) -> None:
        before(untrained)
        if not quiet:
            values = ", ".join(f"{name} {each.value:.4g}" for name, each in untrained.items())
            print(f"before training: {values}", file=sys.stderr)

    with reporting_mistakes(job.file):
        prepared = prepare(checked)
    try:
        train(prepared, progress=not quiet, before=tell)
    except CannotBegin:
        with reporting_mistakes(job.file):
            raise
    except (NotFinite, LostProcess) as error:
        raise Failed(str(error)) from error
    if not is_first():
        return Result(job.folder)
    splits = prepared.splits if pipeline.built_evaluators else None
    run = Run(job.folder, pipeline, splits, trained=prepared.trained)
    result = measured(run, job.file)
    if splits is not None:  # without splits, features would be computed for the pictures alone
        attempt(f"{job.folder}: the pictures for TensorBoard", show_figures, run)
    return result

"""From a pipeline to a run, in three steps: check, prepare, train.

Errors of the first two steps are mistakes of the user; only the third writes or deletes files.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

import ccl_registry as engine
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.measure import (
    any_reads,
    forget_measurements,
    freeze,
    measure,
    numbers,
    write_measurements,
)
from ccl_plugins.experiments.origin import naming_component
from ccl_plugins.experiments.record import (
    DATA,
    Record,
    check_plugins,
    read_json,
    write_json,
)
from ccl_plugins.experiments.rules import check_columns, rules
from ccl_plugins.experiments.watchers import Watchers, watchers_of
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.lock import owning, refuse_in_use
from ccl_plugins.files.processes import is_first
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.files.tensors import write_tensors
from ccl_plugins.metadata.groups import check_apart
from ccl_plugins.networks.devices import accelerator
from ccl_plugins.numerics.generators import seed_everything, undisturbed
from ccl_plugins.protocols import Measurement
from ccl_plugins.training import fitting
from ccl_plugins.training.features import widths
from ccl_plugins.training.findings import Finding
from ccl_plugins.training.first_use import check_columns_of_views
from ccl_plugins.training.fitting import CannotBegin, FitResult, fit, until_begun
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.same_data import fingerprint, refuse_other_data
from ccl_plugins.training.sampling import check_batches, check_processes
from ccl_plugins.training.saved import ResumePoint
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.watching.logging import exact_files, log_evaluation, names_of
from ccl_plugins.watching.noise import unmoved


class RunExists(FileExistsError, engine.Mistake):
    """The folder already holds a run."""


class RunInterrupted(RuntimeError):
    """Training was stopped before its end, and can be resumed.

    Args:
        folder: The run's folder.
        step: Optimizer steps taken.
        total: Optimizer steps of the whole run.
    """

    def __init__(self, folder: Path, step: int, total: int) -> None:
        super().__init__(
            f"stopped at step {step} of {total}; {folder} can be resumed (--resume, or resume=True)"
        )
        self.step = step
        self.total = total


@dataclass(frozen=True)
class Checked:
    """A pipeline and the folder that it may be trained into.

    Args:
        pipeline: The pipeline, with the settings of this run.
        folder: The folder.
        resume: Whether the run in the folder is continued.
        overwrite: Whether the run in the folder is deleted.
        point: The checkpoint to continue from; None at the start of training.
        seen: The checkpoints that existed when the folder was checked.
    """

    pipeline: Composition
    folder: RunFolder
    resume: bool
    overwrite: bool
    point: ResumePoint | None
    seen: tuple[Path, ...]


@dataclass(frozen=True)
class Prepared:
    """A run that can begin: its networks are built and its training data are read.

    Args:
        checked: The pipeline and its folder.
        parts: The built parts.
        splits: The training split and, for evaluators, the test split, else None.
        record: The record of the run, as plain data; its ``"data"`` identifies both splits.
        watchers: The parts that watch the run.
    """

    checked: Checked
    parts: Parts
    splits: tuple[Any, Any]
    record: Mapping[str, Any]
    watchers: Watchers

    @property
    def trained(self) -> Parts | None:
        """The trained parts, for the `Run` that reads the weights into them again.

        None if training may have changed more than weights: with compiled networks, other types and
        layouts of tensors, or several processes, which synchronize batch norms.
        """
        settings = self.checked.pipeline.settings
        changed = settings.compile or settings.channels_last or settings.precision == "64-true"
        if changed or settings.processes > 1:
            return None
        for network in self.parts.networks.values():
            network.zero_grad()  # gradients are as large as the weights
        return self.parts


def check_run(
    pipeline: Composition, out: Path, *, resume: bool = False, overwrite: bool = False
) -> Checked:
    """Check that a pipeline can be trained into a folder, without building networks.

    ``resume`` also begins a run that was stopped before its first checkpoint.

    Raises:
        FolderInUse: If another process writes to the folder.
        InTheWay: If the run would replace a file that no run in the folder wrote.
        RunExists: If the folder holds a run, and neither ``resume`` nor ``overwrite`` is given.
        ValueError: For devices that cannot share a batch, for evaluators of columns that the data set
            lacks, and if the run to be resumed is of another pipeline.
    """
    if resume and overwrite:
        raise ValueError("resume continues a run and overwrite deletes it: give only one of them")
    check_processes(pipeline.settings)
    check_columns(pipeline.built_evaluators, pipeline.dataset)
    folder = RunFolder(out)
    if is_first():
        refuse_in_use(folder.path)
        if not resume:
            _check_free(folder, overwrite)
    seen = tuple(folder.steps) if resume else ()
    point = _resume_point(pipeline, folder, seen) if resume else None
    checked = Checked(pipeline, folder, resume, overwrite, point, seen)
    if is_first():
        _refuse_others(checked)
    return checked


def _check_free(folder: RunFolder, overwrite: bool) -> None:
    place = next(each for each in (folder.path, *folder.path.absolute().parents) if each.exists())
    if not place.is_dir():
        raise RunExists(f"{place} is a file; a run needs a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"{place} cannot be written; a run needs a folder that can")
    if not overwrite and folder.holds_run:
        raise RunExists(
            f"{folder.path} already holds a run: --resume (resume=True) continues it, --overwrite"
            " (overwrite=True) deletes it, another output folder leaves it alone"
        )


def _refuse_others(checked: Checked) -> None:
    """Refuse a folder with other files that the run would replace."""
    folder, point = checked.folder, checked.point
    folder.refuse_links()
    if _lacks_inventory(checked):
        return
    logged = exact_files(folder.path, names_of(checked.pipeline.built_loggers.values()))
    last = folder.checkpoint(point.step).name if point else ""
    later = (file for file in folder.steps if file.name > last)
    folder.refuse_others(*folder.fixed, *later, *folder.embeddings.values(), *logged)


def _lacks_inventory(checked: Checked) -> bool:
    """Whether the run in the folder lacks its inventory, for example after a copy from another machine."""
    folder = checked.folder
    if folder.inventory.exists() or folder.overwritten.exists():
        return False
    if checked.point is not None:
        return True
    try:
        is_record = "versions" in read_json(folder.record)
    except (FileNotFoundError, engine.InvalidConfig):  # or another program's file of this name
        return False
    return is_record and (checked.resume or checked.overwrite)


def _resume_point(
    pipeline: Composition, folder: RunFolder, checkpoints: tuple[Path, ...]
) -> ResumePoint | None:
    """The checkpoint from which this pipeline can continue a folder's run."""
    _check_free(folder, overwrite=True)
    if folder.overwritten.exists():
        return None  # what is left of that run is deleted before this one begins
    point = ResumePoint.newest(folder) if checkpoints else None
    if point is None and folder.weights.exists():
        raise RunExists(
            f"{folder.weights} is of a finished run, which has no checkpoint to continue from"
        )
    # The checkpoint has the record of its run; the folder's may be of a later attempt.
    saved = point.record if point else None
    if saved is None and folder.record.exists():
        saved = read_json(folder.record)
    if saved is not None and (changed := Record(saved).refusals(pipeline.to_dict())):
        raise ValueError(
            f"{folder.path} holds a run of another pipeline, which this one cannot resume:"
            f" {'; '.join(changed)}"
        )
    return point


def check_installed(out: Path) -> None:
    """Check that the plug-ins of the run in a folder are installed; without a run, do nothing."""
    record = RunFolder(out).record
    if record.is_file():
        check_plugins(read_json(record).get("versions", {}))


def build_parts(pipeline: Composition) -> Parts:
    """The built parts of a pipeline, after a check that they fit its settings.

    Raises:
        ValueError: For a batch size, conditions or ``anchors_at_once`` that a part cannot take.
    """
    parts = pipeline.build()
    for ask in rules(pipeline, parts):
        ask()
    return parts


def try_out(
    parts: Parts, split: Any, settings: FitSettings, callback: Any, *, progress: bool = False
) -> FitResult:
    """Train parts in a temporary folder. It raises the errors of `fit`."""
    with tempfile.TemporaryDirectory() as folder:
        return fit(
            parts,
            split,
            settings,
            {},
            run=RunFolder(Path(folder)),
            callbacks=[callback],
            progress=progress,
        )


def prepare(checked: Checked, callbacks: Iterable[Any] = (), logger: Any = True) -> Prepared:
    """Build the networks, read the training data and send one sample through both.

    Raises:
        TypeError: For callbacks and loggers that are not Lightning's.
        ValueError: For a batch or a condition that the method cannot take, for data that cannot be read or
            that transform and backbone cannot take, and for loggers that are not
            installed or lack an option.
        OtherData: If the run to be resumed began with other data.
    """
    pipeline = checked.pipeline
    seed_everything(pipeline.settings.seed)
    with naming_component(pipeline):
        parts = build_parts(pipeline)
        watchers = watchers_of(pipeline, callbacks, logger)
        record = pipeline.to_dict()
        record["callbacks"] = dict(sorted(watchers.versions.items() - record["versions"].items()))
        split = parts.dataset("train")
        test = parts.dataset("test") if pipeline.built_evaluators else None
        check_columns_of_views(parts.transform, split)
        if test is not None:
            check_apart(split, test)
        if len(split):
            widths(parts, split, pipeline.settings)  # transform and networks may not take such data
            check_batches(parts, split, pipeline.settings)
        record[DATA] = {
            name: fingerprint(each, pipeline.settings.workers, parts.transform)
            for name, each in (("train", split), ("test", test))
            if each is not None
        }
        # The data of other processes is compared with the first one's when they are joined.
        if checked.point is not None and is_first():
            refuse_other_data(checked.point, record[DATA], parts, split, pipeline.settings.seed)
    return Prepared(checked, parts, (split, test), record, watchers)


def rehearse(prepared: Prepared) -> None:
    """Make the tables and the sampler that do not depend on networks, to find mistakes early.

    The first process does this for all, because conditions may take minutes and much memory.

    Raises:
        ValueError: For conditions, sampler and settings that do not suit the data.
    """
    if not is_first():
        return
    pipeline = prepared.checked.pipeline
    with naming_component(pipeline):
        fitting.rehearse(prepared.parts, prepared.splits[0], pipeline.settings)


def train(
    prepared: Prepared,
    *,
    progress: bool = True,
    before: Callable[[Mapping[str, Measurement]], None] = lambda measured: None,
) -> None:
    """Measure the backbone of a prepared run, then train it into its folder.

    A resumed run is not measured again.

    Args:
        prepared: The run.
        progress: Whether a progress bar is shown.
        before: Called with the measurements before training, if there is an evaluator.

    Raises:
        FolderInUse: If another process writes to the folder.
        RunExists: If another process has written to the folder in the meantime.
        RunInterrupted: If training was stopped before its end.
        CannotBegin: If the backbone cannot be measured, or the conditions' tables or the sampler cannot
            be made.
        NotFinite: If the loss or the weights become NaN or infinite.
    """
    from ccl_plugins.watching.monitor import Costs

    checked, parts, watchers = prepared.checked, prepared.parts, prepared.watchers
    folder, pipeline, point = checked.folder, checked.pipeline, checked.point
    # The first process owns the folder, for all.
    with naming_component(pipeline), owning(folder.path) if is_first() else nullcontext():
        found: list[Finding] = []
        if is_first():
            given = (parts, pipeline, prepared.splits, folder.path)
            measured, original, found = ({}, None, []) if point else measure_before(*given)
            _begin(prepared)
        with watchers.opened_loggers(folder, point.step if point else None) as loggers:
            if is_first() and measured:
                write_measurements(folder, {"before": measured})
                if original is not None:
                    write_tensors(folder.claim(folder.original), {"test": original}, {})
                log_evaluation(loggers, numbers(measured), step=0)
                before(measured)
            costs = Costs()
            record, resumed = prepared.record, point is not None
            result = fit(
                parts,
                prepared.splits[0],
                pipeline.settings,
                record,
                run=folder,
                resume=point,
                callbacks=watchers.all_callbacks(folder, record, costs, found, resumed=resumed),
                progress=progress,
                loggers=loggers,
            )
            if is_first():
                write_measurements(folder, costs=costs.to_dict())
    if not result.finished:
        raise RunInterrupted(folder.path, result.step, result.total)


def _begin(prepared: Prepared) -> None:
    """Delete the old run if asked to, and write the record."""
    checked = prepared.checked
    folder = checked.folder
    if _lacks_inventory(checked):
        folder.adopt()
    if checked.overwrite or folder.overwritten.exists():
        folder.clear()
    elif checked.resume and checked.seen != tuple(folder.steps):
        raise RunExists(f"{folder.path}: another process has continued this run: start again")
    elif checked.point is None:
        # It was checked before other runs were trained.
        _check_free(folder, overwrite=checked.resume)
        if folder.record.exists():
            folder.clear()  # what is left of a run that was killed before its first checkpoint
    folder.delete_partial()
    if not _is_finished(checked):
        forget_measurements(folder)  # these are of older weights
    write_json(folder.claim(folder.record), prepared.record)


def _is_finished(checked: Checked) -> bool:
    """Whether the run in the folder has all epochs and steps of the pipeline.

    A finished run that is continued keeps its weights until it has finished again.
    """
    if checked.point is None or not checked.folder.weights.exists():
        return False
    try:
        if read_checkpoint(checked.folder.weights)["step"] < checked.point.step:
            return False
    except DamagedFile:
        return False
    before, now = checked.point.record["fit"], checked.pipeline.settings
    return (before["epochs"], before.get("max_steps")) == (now.epochs, now.max_steps)


def measure_before(
    parts: Parts, pipeline: Composition, splits: Sequence[Any], folder: Path | None
) -> tuple[dict[str, Measurement], Tensor | None, list[Finding]]:
    """The backbone's measurements, its features of the test split if they are kept, and findings.

    Args:
        parts: The parts of the pipeline.
        pipeline: The pipeline.
        splits: Both splits.
        folder: See `freeze`.

    Raises:
        CannotBegin: If evaluators that were chosen cannot measure.
    """
    if not pipeline.built_evaluators:
        return {}, None, []
    parts.method.to(accelerator())
    try:
        with undisturbed(), until_begun():
            projections = any_reads(pipeline.built_evaluators, "projections")
            train, test = freeze(
                parts.method,
                pipeline,
                pipeline.settings.workers,
                *splits,
                projections=projections,
                folder=folder,
            )
            kept = test.features if any_reads(pipeline.built_evaluators, "original") else None
            test = replace(test, original=kept)
            measured = measure(pipeline, train, test, pipeline.chosen_evaluators)
            return measured, kept, [*unmoved(pipeline.built_evaluators, train, test)]
    except CannotBegin as error:
        if not pipeline.evaluates_by_default:
            raise
        # Nobody chose these evaluators, and the data may be too few for them.
        warnings.warn(f"the backbone is not measured before training: {error}", stacklevel=2)
        return {}, None, []
    finally:
        parts.method.to("cpu")  # where every run starts

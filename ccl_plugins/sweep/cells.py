"""The cells of a sweep: trained and measured by any number of processes, then shown in one table.

A sweep's folder has its definition (``sweep.json``), the queue of its cells (``queue/000.json``, ...), one
run for each (``cells/000``, ...), and what was found (``results.csv``, ``results.parquet``).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ccl_plugins.arguments import did_you_mean
from ccl_plugins.experiments.jobs import FOREVER, on_slurm, submitit
from ccl_plugins.experiments.measure import (
    any_reads,
    freeze,
    measure_to_choose,
    read_measurements,
)
from ccl_plugins.experiments.pipeline import Pipeline, Run
from ccl_plugins.experiments.record import DATA, read_json, write_json
from ccl_plugins.experiments.results import Group, settings_of
from ccl_plugins.experiments.train import Prepared, RunInterrupted, check_run, prepare, train
from ccl_plugins.files.atomic import atomic_write, delete_abandoned
from ccl_plugins.files.differences import differences
from ccl_plugins.files.fingerprints import other_data
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kinds import registry
from ccl_plugins.networks.devices import accelerator
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.protocols import Measurement
from ccl_plugins.sweep.queue import CellQueue, Entry, import_optuna
from ccl_plugins.sweep.sweep import NAME, OWN, Sweep, held_rows, named, text_of
from ccl_plugins.training.same_data import OtherData
from ccl_registry.errors import Mistake

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

SEED = "fit.seed"
"""The key whose values only repeat a configuration: the seed."""


class SweepExists(FileExistsError, Mistake):
    """The folder already holds a sweep."""


def begin(sweep: Sweep, *, resume: bool = False) -> None:
    """Create a sweep's folder, or continue it; failed cells are put into the queue again.

    Raises:
        SweepExists: If the folder holds this sweep and ``resume`` is not given, or another sweep.
        ImportError: For a search, if Optuna is not installed.
        ValueError: For a cell's file that is damaged.
    """
    if sweep.trials is not None:
        import_optuna()
    file, queue = sweep.out / "sweep.json", CellQueue(sweep)
    with queue.locked():
        delete_abandoned(sweep.out)  # left by a process that was killed as it wrote this
        if file.exists():
            _check_same(sweep, read_json(file), resume)
        elif other := sorted({each.name for each in sweep.out.iterdir()} - {queue.folder.name}):
            raise SweepExists(
                f"{sweep.out} has other files, such as {other[0]!r}: a sweep needs a folder of its own"
            )
        queue.fill()
        # The definition last: without it the folder holds no sweep.
        write_json(file, sweep.to_dict())


def _check_same(sweep: Sweep, saved: Mapping[str, Any], resume: bool) -> None:
    # An earlier version may have written fewer keys: read, they have their defaults.
    before, now = (
        json.loads(json.dumps(each.to_dict()))
        for each in (Sweep.from_dict(saved, sweep.out), sweep)
    )
    # Grids that were added at the end leave the cells before them as they are.
    now["spaces"] = {i: space for i, space in now["spaces"].items() if i in before["spaces"]}
    changed = [
        str(each)
        for each in differences(before, now)
        if each.place != "trials" or (sweep.trials or 0) < (saved["trials"] or math.inf)
    ]
    if changed:
        raise SweepExists(f"{sweep.out} holds another sweep: {'; '.join(changed)}")
    if not resume:
        raise SweepExists(
            f"{sweep.out} already holds this sweep: --resume goes on with it, and another out leaves it"
            " alone"
        )


def work(
    sweep: Sweep,
    *,
    progress: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Take cells from the queue until none is left; train and measure each.

    A cell that fails is noted in the queue, and the next is taken.

    Args:
        sweep: The sweep; its folder was made by `begin`.
        progress: Whether each run shows a progress bar.
        tell: Called with a line when a cell begins and when it fails.

    Raises:
        RunInterrupted: If training was stopped; the cell continues when the sweep is resumed.
        OtherData: If the data differ from those of earlier cells.
    """
    queue = CellQueue(sweep)
    name: str | None = ""
    while name is not None:
        with queue.taking() as name:
            if name is not None:
                _work_on(queue, name, progress, tell)


def _work_on(queue: CellQueue, name: str, progress: bool, tell: Callable[[str], None]) -> None:
    sweep, cell = queue.sweep, queue.read(name).values
    tell(f"cell {name} (of {sweep.size}): {named(cell)}")
    pruning = _pruning(queue, name)
    try:
        metrics = _run_cell(sweep, sweep.out / "cells" / name, cell, pruning, progress)
        value = _of(metrics, sweep.metric)
        if not math.isfinite(value):
            raise ValueError(f"{sweep.metric} is {value}, so the cell cannot be chosen by it")
        known: dict[str, Any] = {"excess": sweep.excess(metrics)}
        if pruning and pruning[0].pruned:
            known["state"] = "pruned"
            tell(f"cell {name} was stopped early")
        else:
            known |= {"state": "done", "value": value}
    except (RunInterrupted, KeyboardInterrupt, OtherData):
        raise
    # The cell's components may raise anything; the other cells do not depend on it.
    except BaseException as error:
        if registry().strict:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        known = {"state": f"failed: {reason[:2000]}"}
        tell(f"cell {name} failed: {reason}")
    queue.change(name, **known)


def work_in(out: str) -> None:
    """`work` on the sweep of a folder, in a separate process."""
    work(load_sweep(Path(out)))


def load_sweep(out: Path) -> Sweep:
    """The sweep of a folder.

    Raises:
        FileNotFoundError: If the folder holds no sweep.
    """
    if not (out / "sweep.json").is_file():
        raise FileNotFoundError(f"{out} holds no sweep: it has no sweep.json")
    return Sweep.from_dict(read_json(out / "sweep.json"), out)


def _run_cell(
    sweep: Sweep, folder: Path, cell: Mapping[str, Any], callbacks: list[Any], progress: bool
) -> dict[str, float]:
    """Train and measure a cell, from its last checkpoint; the metrics of the validation part."""
    pipeline = Pipeline.from_dict(sweep.configuration(cell))
    prepared = prepare(check_run(pipeline, folder, resume=True), callbacks)
    _refuse_other_data(sweep, prepared.record)
    own = sweep.own_validation
    if own is None:
        held_rows(prepared.splits[0])

    def before(untrained: Mapping[str, Any]) -> None:
        # A metric that cannot choose is refused before the training.
        wanted = (sweep.metric, *sweep.subject_to)
        for name in wanted:
            _of(untrained, name)
        if _has_chosen(sweep, prepared.record):
            return
        chosen_by = _measured_to_choose(prepared, own)
        for name in wanted:
            if name not in chosen_by:
                raise ValueError(
                    f"{name!r} has no number for the choice of cells (see the warning): choose by"
                    f" {' or '.join(chosen_by) or 'another evaluator'}, or by {OWN}"
                )

    train(prepared, progress=progress, before=before)
    run = Run(folder, pipeline, prepared.splits, trained=prepared.trained)
    metrics = run.validate(on=own)
    run.evaluate()
    return metrics


def _measured_to_choose(prepared: Prepared, own: Any) -> Mapping[str, Any]:
    """The measurements before training on the data by which cells are chosen."""
    pipeline, method = prepared.checked.pipeline, prepared.parts.method
    splits = [prepared.splits[0], *([] if own is None else [own("test")])]
    method.to(accelerator())
    try:
        with undisturbed():
            projections = any_reads(pipeline.built_evaluators, "projections")
            frozen = freeze(
                method, pipeline, pipeline.settings.workers, *splits, projections=projections
            )
            train, *on = frozen
            return measure_to_choose(pipeline, train, pipeline.chosen_evaluators, *on)
    finally:
        method.to("cpu")  # where every run starts


def _begun(sweep: Sweep, record: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder and the record of each cell that was begun and has this record's data set."""
    for file in sorted(sweep.out.glob("cells/*/pipeline.json")):
        try:
            other = read_json(file)
        except FileNotFoundError:  # another process begins this cell anew
            continue
        if other.get("dataset") == record["dataset"]:
            yield file.parent, other


def _has_chosen(sweep: Sweep, record: Mapping[str, Any]) -> bool:
    """Whether a cell with a record's data and evaluators was measured for the choice."""
    return any(
        other.get("evaluate") == record["evaluate"]
        and read_measurements(RunFolder(folder)).validation
        for folder, other in _begun(sweep, record)
    )


def _refuse_other_data(sweep: Sweep, record: Mapping[str, Any]) -> None:
    """Refuse data that differ from another cell's with the same data set."""
    for folder, other in _begun(sweep, record):
        if changed := other_data(other.get(DATA, {}), record[DATA]):
            raise OtherData(
                f"the data is not that of cell {folder.name}: {'; '.join(changed)}. The cells of a"
                " sweep are compared on one data set: bring that back, or begin a sweep in another folder"
            )


def _of(metrics: Mapping[str, T], name: str) -> T:
    if name not in metrics:
        near = did_you_mean(
            name, metrics, "Metrics that the data do not define are left out. There are:"
        )
        raise ValueError(f"no evaluator of the pipeline gives the metric {name!r}.{near}")
    return metrics[name]


def _pruning(queue: CellQueue, cell: str) -> list[Any]:
    """A callback that stops a run whose logged value is worse than that of other cells."""
    name = queue.sweep.prune
    if name is None:
        return []
    from pytorch_lightning import Callback

    class Pruning(Callback):
        pruned = False

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            value = trainer.callback_metrics.get(name)
            if value is None:
                return
            behind = queue.is_behind(cell, trainer.global_step, float(value))
            if trainer.global_step < pl_module.length.steps and behind:
                self.pruned = trainer.should_stop = True

    return [Pruning()]


# Processes beside this one.


def launch(sweep: Sweep, jobs: int, launcher: str = "local") -> list[Any]:
    """Start processes that take cells from the queue; their output is in the folder ``logs``.

    Args:
        sweep: The sweep; its folder was made by `begin`.
        jobs: The number of processes.
        launcher: ``"local"``: on this machine, each with one of its GPUs in turn; ``"slurm"``: as an array.

    Returns:
        submitit's jobs.

    Raises:
        ImportError: If submitit is not installed.
        RuntimeError: If this machine has no SLURM.
        ValueError: For options of ``[slurm]`` that submitit does not know.
    """
    logs = sweep.out / "logs"
    if launcher == "slurm":
        executor = on_slurm(logs, "a sweep", {"name": "ccl-sweep", **sweep.slurm})
        return list(executor.map_array(work_in, [str(sweep.out)] * jobs))
    devices = torch.cuda.device_count()
    local, started = submitit("a sweep").LocalExecutor(logs), []
    for i in range(jobs):
        own = {"gpus_per_node": 1, "visible_gpus": (i % devices,)} if devices else {}
        local.update_parameters(timeout_min=FOREVER, **own)
        started.append(local.submit(work_in, str(sweep.out)))
    return started


# What was found.


@dataclass(frozen=True)
class Cell:
    """The results of a cell.

    Args:
        name: Its folder in ``cells``.
        values: The values of the swept keys.
        state: ``"done"``, ``"pruned"``, ``"running"``, ``"waiting"`` or ``"failed: ..."``.
        before: The measurements before training, by name.
        validation: The measurements on the validation part of the training split, for the choice.
        test: The measurements on the test split.
    """

    name: str
    values: Mapping[str, Any]
    state: str
    before: Mapping[str, Measurement] = field(default_factory=dict)
    validation: Mapping[str, Measurement] = field(default_factory=dict)
    test: Mapping[str, Measurement] = field(default_factory=dict)

    @property
    def seed(self) -> Any:
        """The seed of its training, if the sweep tries several."""
        return self.values.get(SEED)

    @property
    def configuration(self) -> dict[str, Any]:
        """The values that are equal in cells which differ only in the seed."""
        return {key: value for key, value in self.values.items() if key != SEED}


def cells_of(sweep: Sweep) -> list[Cell]:
    """The cells of a sweep that were begun or wait, in order."""
    return [_cell(sweep, name, entry) for name, entry in CellQueue(sweep).entries().items()]


def _cell(sweep: Sweep, name: str, entry: Entry) -> Cell:
    values, state = entry.values, entry.state
    try:
        run = Run(sweep.out / "cells" / name)
    except FileNotFoundError:  # not begun, or another process begins it anew
        return Cell(name, values, state)
    before = run.measurements("before")
    if state != "done":
        return Cell(name, values, state, before)
    return Cell(
        name, values, state, before, run.measurements("validation"), run.measurements("after")
    )


def rows_of(sweep: Sweep, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """One row for each cell, all with the same columns: values, state and metrics."""
    cells = list(cells)
    keys = list(sweep.values)
    kinds = ("before", "validation", "test")
    names = {kind: sorted({n for each in cells for n in getattr(each, kind)}) for kind in kinds}
    return [
        {
            "cell": each.name,
            **{key: _plain(each.values.get(key)) for key in keys},
            "state": each.state,
            **{
                f"{kind}/{n}": float(found[n].value) if n in found else None
                for kind in kinds
                for found in [getattr(each, kind)]
                for n in names[kind]
            },
        }
        for each in cells
    ]


def _plain(value: Any) -> Any:
    """Numbers and words unchanged, tables as JSON."""
    return json.dumps(value) if isinstance(value, Mapping | list) else value


def write_results(sweep: Sweep, cells: Iterable[Cell]) -> list[Path]:
    """Write ``results.csv``, and with pyarrow ``results.parquet``, a row for each cell, atomically.

    Raises:
        OSError: If a file cannot be written.
    """
    rows = rows_of(sweep, cells)
    columns = list(rows[0]) if rows else []
    files = [sweep.out / "results.csv"]
    with (
        atomic_write(files[0]) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return files
    files.append(sweep.out / "results.parquet")
    # Values of several types, such as "median" beside 0.1, are words for Parquet.
    table = {name: _one_type([row[name] for row in rows]) for name in columns}
    with atomic_write(files[1]) as temporary:
        parquet.write_table(pyarrow.table(table), temporary)
    return files


def _inert(value: Any) -> Any:
    """A value that is safe in spreadsheets: text that begins like a formula gets an apostrophe."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if formula else value


def _one_type(values: list[Any]) -> list[Any]:
    types = {type(value) for value in values if value is not None}
    return (
        values
        if len(types - {int, float}) + bool(types & {int, float}) < 2
        else [None if value is None else text_of(value) for value in values]
    )


def configurations(sweep: Sweep, cells: Iterable[Cell]) -> list[Group]:
    """Groups of cells that differ only in the seed, the best by the validation part first.

    Groups within the bounds of ``subject_to`` come before the others. A group's name is that of its
    grid, and the settings that distinguish it from others of that name.
    """
    by_values: dict[str, list[Cell]] = {}
    for cell in cells:
        # Two grids may have the same keys in another order.
        by_values.setdefault(json.dumps(cell.configuration, sort_keys=True), []).append(cell)
    names = labels_of([group[0].configuration for group in by_values.values()])
    groups = [Group(*pair) for pair in zip(by_values.values(), names, strict=True)]
    sign = -1 if sweep.direction == "maximize" else 1

    def place(group: Group) -> tuple[float, float]:
        mean = group.estimate(sweep.metric, "validation").mean
        return excess(sweep, group), math.inf if mean is None else sign * mean

    return sorted(groups, key=place)


def done(group: Group) -> Group:
    """The cells of a group that are done."""
    return Group([each for each in group.runs if each.state == "done"], group.name)


def bounded(sweep: Sweep, group: Group) -> dict[str, float]:
    """The means of the metrics with bounds, without metrics that a cell lacks."""
    found = {name: group.estimate(name, "validation") for name in sweep.subject_to}
    whole = len(done(group).runs)
    return {n: each.mean for n, each in found.items() if each.mean is not None and each.n == whole}


def excess(sweep: Sweep, group: Group) -> float:
    """By how much a group is beyond the bounds; 0 if no cell is done."""
    return sweep.excess(bounded(sweep, group)) if done(group).runs else 0.0


def labels_of(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of each configuration: its grid's name, and the settings that distinguish it.

    Without a grid's name, only the settings.
    """
    labels = [""] * len(cells)
    for name in dict.fromkeys(cell.get(NAME, "") for cell in cells):
        own = [i for i, cell in enumerate(cells) if cell.get(NAME, "") == name]
        values = [{k: v for k, v in cells[i].items() if k not in (NAME, SEED)} for i in own]
        differ = {k for each in values for k, v in each.items() if v != values[0].get(k)}
        shown = (
            settings_of(values)
            if name
            else [named({k: v for k, v in each.items() if k in differ}) for each in values]
        )
        for i, each in zip(own, shown, strict=True):
            labels[i] = ", ".join(filter(None, (name, each)))
    return labels

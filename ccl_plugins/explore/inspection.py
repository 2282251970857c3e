"""A pipeline's data and cost, before it is trained."""

from __future__ import annotations

import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import data

import ccl_registry as engine
from ccl_plugins.commands.base import MISTAKES
from ccl_plugins.datasets.annotated import Annotated, annotations_of
from ccl_plugins.datasets.image_files import ImageFiles
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.configuration import override
from ccl_plugins.experiments.origin import naming_component
from ccl_plugins.experiments.rules import check_columns, rules
from ccl_plugins.experiments.train import measure_before, try_out
from ccl_plugins.explore.images_seen import image_findings, looks_at, unreadable
from ccl_plugins.files import mapped
from ccl_plugins.files.pixels import UnreadableImage
from ccl_plugins.information.entropies import entropy, information
from ccl_plugins.kinds import registry
from ccl_plugins.metadata.fitted import together
from ccl_plugins.metadata.groups import check_apart
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.numerics.generators import seed_everything
from ccl_plugins.protocols import Sampler, ValueType, trait
from ccl_plugins.training.features import frozen_features, widths
from ccl_plugins.training.findings import Findings
from ccl_plugins.training.first_use import check_columns_of_views
from ccl_plugins.training.fitting import CannotBegin, fixed_tables, rehearsals
from ccl_plugins.training.kernel_check import (
    KernelReading,
    check_kernel,
    describe_kernel,
    kernel_readings,
    scales_of,
)
from ccl_plugins.training.loader import Items, collate, read_batch
from ccl_plugins.training.sampling import EpochSampler, check_batches, check_divisible
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.logging import check_loggers as check_loggers
from ccl_plugins.watching.symptoms import Beginning, UnfitCondition

if TYPE_CHECKING:
    from ccl_plugins.files.looks import Looks

WRONG = (*MISTAKES, OSError)
"""The errors of wrong values and data; other errors are bugs."""

STEPS = 6
"""The number of timed optimizer steps; the first two are not counted."""

STRONG = 0.5
"""A note is given if a condition holds more than this share of the label."""

MEASURED = 1000
"""The most samples of both splits with which evaluators are tried too."""

BATCHES, LARGEST = 4, 2048
"""The number of batches in which neighbors are counted, and of first samples that are compared in each."""

FEW = 2.0
"""With fewer neighbors of an anchor in its batch, hardly two samples are similar."""

UNREADABLE = 5
"""The number of first samples that are tried if images are not checked."""


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection.

    Args:
        columns: For each column of the metadata (a label only if a sample has one): ``column``,
            ``type``, ``values`` (the number of different values), ``missing`` training samples,
            ``least`` (the samples of the rarest class), ``chance`` (the share of the most frequent
            class of the test split, which guessing reaches) and ``of label``, the share of
            information about the label: of the label's entropy for classes, and of the numbers'
            variance between labels for numbers.
        samples: The number of samples of each split.
        notes: Problems, and the effect of kernels on conditions, one line each.
        step: ``seconds`` of an optimizer step, ``hours`` of the whole run without evaluation, and
            ``gigabytes`` of memory at most; empty if no step was made.
        looked: The number of checked images of each split.
        unreadable: The notes about images that the run needs and that cannot be read.
    """

    columns: list[dict[str, Any]]
    samples: Mapping[str, int]
    notes: list[str] = field(default_factory=list)
    step: Mapping[str, float] = field(default_factory=dict)
    looked: Mapping[str, int] = field(default_factory=dict)
    unreadable: Sequence[str] = ()


class Faulty(engine.Mistake):
    """A pipeline cannot train; images that cannot be read are notes.

    Args:
        inspection: The other findings.
        faults: The reasons, one each.
    """

    def __init__(self, inspection: Inspection, faults: Sequence[Exception]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.inspection = inspection
        self.faults = faults
        for note in getattr(faults[0], "__notes__", ()) if len(faults) == 1 else ():
            self.add_note(note)


def inspect_file(
    path: str | Path,
    *,
    quick: bool = False,
    changes: Iterable[tuple[Sequence[str], Any]] = (),
) -> Inspection:
    """`inspect` the pipeline of a TOML file, with the warnings while it is composed among the notes.

    Args:
        path: The file.
        quick: See `inspect`.
        changes: See `Composition.from_toml`.

    Raises:
        Faulty: See `inspect`; also for a pipeline that cannot be composed, with the facts about its
            data set.
    """
    changed = [*changes]
    try:
        return inspect_composed(lambda: Composition.from_toml(path, changes=changed), quick=quick)
    except Faulty:
        raise
    except WRONG as error:
        if registry().strict:
            raise
        try:
            given = override(engine.read_toml(path), changed).get("dataset")
            dataset = registry().read("dataset", given, where="dataset").build(cache={})
        except WRONG:
            raise error from None  # there is nothing else to read
        faults, notes = _Faults(None, error), list[str]()
        with _noting(notes):
            _, _, inspection = _data(dataset, ("train", "test"), None, quick, faults)
        if not inspection.samples and len(faults.found) == 1:
            raise error from None
        told = replace(inspection, notes=[*notes, *inspection.notes])
        raise Faulty(told, faults.found) from error


def inspect_composed(compose: Callable[[], Composition], *, quick: bool = False) -> Inspection:
    """`inspect` the composed pipeline; warnings while it is composed become notes."""
    notes: list[str] = []
    with _noting(notes):
        pipeline = compose()
    try:
        inspection = inspect(pipeline, quick=quick)
    except Faulty as error:
        error.inspection = replace(error.inspection, notes=[*notes, *error.inspection.notes])
        raise
    return replace(inspection, notes=[*notes, *inspection.notes])


def inspect(pipeline: Composition, *, quick: bool = False) -> Inspection:
    """Read a pipeline's data and make a few steps, without a run's folder.

    All that can be inspected is inspected, even if other parts are wrong; unreadable images are
    left out.

    Args:
        pipeline: The pipeline.
        quick: Whether to check only the first image, and to make no steps.

    Raises:
        Faulty: With all faults that would keep the pipeline from training.
    """
    notes: list[str] = []
    faults = _Faults(pipeline)
    seed_everything(pipeline.settings.seed)
    with _noting(notes):
        inspection = _inspected(pipeline, quick, faults)
    inspection = replace(inspection, notes=[*notes, *inspection.notes])
    if faults.found:
        raise Faulty(inspection, faults.found)
    return inspection


def _inspected(pipeline: Composition, quick: bool, faults: _Faults) -> Inspection:
    settings = pipeline.settings
    for evaluator in pipeline.built_evaluators:
        faults.of(check_columns, [evaluator], pipeline.dataset)
    faults.of(check_loggers, pipeline.built_loggers)
    faults.of(check_divisible, settings.batch_size, settings.processes)
    parts = faults.of(pipeline.build)
    for ask in () if parts is None else rules(pipeline, parts):
        faults.of(ask)
    of_run = ("train", "test") if pipeline.built_evaluators else ("train",)
    splits, looks, inspection = _data(pipeline.dataset, of_run, settings.workers, quick, faults)
    notes = inspection.notes
    notes += _associated(pipeline, inspection.columns)
    if parts is None or "train" not in splits:
        return inspection
    train, seen = splits["train"], looks.get("train")
    sound = _readable(splits, looks, "train")
    _try_images(parts, splits, looks, pipeline, faults)
    before = len(faults.found)
    batches, *others = rehearsals(parts, sound, settings)
    faults.of(batches)
    if len(faults.found) == before:
        notes += faults.of(lambda: [*_of_tables(parts, sound, settings)]) or ()
    else:  # the conditions after the first that fails, and the sampler
        for names in together(parts.conditions):
            faults.of(
                fixed_tables, {name: parts.conditions[name] for name in names}, sound, settings
            )
        faults.of(check_batches, parts, sound, settings)
    for check in others:
        faults.of(check)
    if quick or faults.found or (seen is not None and not seen):  # no sample can be read
        return inspection
    if len(splits) == 2 and sum(map(len, splits.values())) <= MEASURED:
        faults.of(measure_before, parts, pipeline, (sound, _readable(splits, looks, "test")), None)

    def timed() -> dict[str, float]:
        try:
            return _step(pipeline, parts, sound, len(train))
        except CannotBegin as error:  # all samples were tried above
            notes.append(f"no step was timed, because it would need more samples: {error}")
            return {}

    return replace(inspection, step=faults.of(timed) or {})


def _data(
    dataset: Any, of_run: Sequence[str], workers: int | None, quick: bool, faults: _Faults
) -> tuple[dict[str, Any], dict[str, Looks], Inspection]:
    """The readable splits, the looks of their images, and the inspection of the data."""
    read = {name: _read(dataset, name, faults) for name in ("train", "test")}
    splits = {name: split for name, split in read.items() if split is not None}
    if len(splits) == 2:
        faults.of(check_apart, *splits.values())
    looks: dict[str, Looks] = {}
    for name, split in () if quick else splits.items():
        seen = faults.of(looks_at, split, workers)
        if seen is not None and (len(seen) or seen.unreadable):  # else its samples are no images
            looks[name] = seen
    lines = {name: [*unreadable(name, splits[name], seen)] for name, seen in looks.items()}
    notes = [*chain(*lines.values()), *image_findings(splits, looks)]
    inspection = Inspection(
        [*_columns(dataset.schema(), *splits.values())] if len(splits) == 2 else [],
        {name: len(split) for name, split in splits.items()},
        notes,
        looked={name: len(seen) + len(seen.unreadable) for name, seen in looks.items()},
        unreadable=[line for name in of_run for line in lines.get(name, ())],
    )
    return splits, looks, inspection


class _Faults:
    """The faults that would keep a pipeline from training, each once.

    Args:
        pipeline: The pipeline; None: it cannot be composed.
        found: The inspection so far.
    """

    def __init__(self, pipeline: Composition | None, *found: Exception) -> None:
        self.pipeline = pipeline
        self.found = [*found]

    def of(self, check: Callable[..., Any], *given: Any) -> Any:
        """The result of a check; None if it raises, in which case the error is kept.

        So all mistakes are reported; with ``CCL_STRICT=1`` the first is raised.
        """
        try:
            with naming_component(self.pipeline) if self.pipeline else nullcontext():
                return check(*given)
        except WRONG as error:
            if registry().strict:
                raise
            if str(error) not in map(str, self.found):
                self.found.append(error)
            return None


def _read(dataset: Any, name: str, faults: _Faults) -> Any:
    """A split, even if image files are missing or do not match."""
    before = len(faults.found)
    split = faults.of(dataset, name)
    if faults.found[before:] and isinstance(faults.found[-1], UnreadableImage):
        return faults.of(dataset.unchecked, name) if hasattr(dataset, "unchecked") else None
    return split


def _readable(splits: Mapping[str, Any], looks: Mapping[str, Looks], name: str) -> Any:
    """A split without unreadable images, which later checks would report again."""
    split, seen = splits[name], looks.get(name)
    if not seen or not seen.unreadable:
        return split
    return _some(split, [row for row in range(len(split)) if row not in seen.unreadable])


def _some(split: Any, rows: Sequence[int]) -> Any:
    """Some samples of a split."""
    if isinstance(split, ImageFiles):
        return split.select(rows)
    return Annotated(data.Subset(split, rows), *annotations_of(split, rows))


def _try_images(
    parts: Any,
    splits: Mapping[str, Any],
    looks: Mapping[str, Looks],
    pipeline: Composition,
    faults: _Faults,
) -> None:
    """Send samples with each number of channels, and the smallest and largest, through all networks."""
    train, settings = splits["train"], pipeline.settings
    faults.of(check_columns_of_views, parts.transform, train)
    before = len(faults.found)
    if "train" not in looks:
        for row in range(min(UNREADABLE, len(train))):
            had = len(faults.found)
            faults.of(widths, parts, _some(train, [row]), settings)
            if len(faults.found) == had or not isinstance(faults.found[-1], UnreadableImage):
                break
        return
    rows = looks["train"].extremes()
    for row in rows:
        faults.of(widths, parts, _some(train, [row]), settings)
    if len(faults.found) > before:
        return
    if len(rows) > 1:  # as training does with a batch
        together = bool(trait(parts.transform, "batch_transforms"))
        items = Items(train, parts.transform, settings.seed, together)
        keys = [(0, place, row) for place, row in enumerate(rows)]
        faults.of(read_batch, items, keys, collate, settings.workers)
    for name, seen in looks.items() if pipeline.built_evaluators else ():
        if rows := seen.extremes():
            faults.of(frozen_features, parts.method, _some(splits[name], rows), parts.transform)


@contextmanager
def _noting(notes: list[str]) -> Iterator[None]:
    """Put the warnings of this library and its plug-ins among the notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    notes[:0] = dict.fromkeys(
        str(each.message) for each in caught if issubclass(each.category, UserWarning)
    )


def _columns(schema: Mapping[str, ValueType], train: Any, test: Any) -> Iterator[dict[str, Any]]:
    label = torch.as_tensor(train.metadata["label"])
    for name, value_type in schema.items():
        if name not in train.metadata:  # the column is left out by choice, or computed on use
            continue
        variable = Variable(torch.as_tensor(train.metadata[name]), value_type)
        values, missing, known = variable.values, variable.missing, variable.present
        if name == "label" and not len(known) and not len(_present(test, name, value_type)):
            continue  # data without labels have this column too
        row: dict[str, Any] = {"column": name, "type": value_type}
        row["values"] = len(known.unique(dim=0)) if len(known) else 0
        row["missing"] = int(missing.sum())
        row["least"] = row["chance"] = row["of label"] = None
        if len(known) and value_type == "categorical" and known.ndim == 1:
            row["least"] = int(known.unique(return_counts=True)[1].min())
            if len(seen := _present(test, name, value_type)):
                row["chance"] = float(seen.unique(return_counts=True)[1].max()) / len(seen)
        if name != "label" and schema.get("label", "categorical") == "categorical":
            both = ~missing & (label >= 0)
            row["of label"] = _told(values[both], label[both], value_type)
        yield row


def _present(split: Any, name: str, value_type: ValueType) -> Tensor:
    """The values of a column, of the samples that have one."""
    return Variable(torch.as_tensor(split.metadata[name]), value_type).present


def _told(values: Tensor, label: Tensor, value_type: ValueType) -> float | None:
    """The share of the label's entropy that ids explain, or of the variance of numbers between labels."""
    if not len(values) or len(label.unique()) < 2:
        return None
    if value_type == "categorical":
        ids = [values] if values.ndim == 1 else list(values.T)
        return max(information(each, label).mutual for each in ids) / entropy(label)
    x = values.double().reshape(len(values), -1)
    classes, index = label.unique(return_inverse=True)
    sizes = torch.zeros(len(classes), dtype=x.dtype).index_add_(0, index, torch.ones_like(x[:, 0]))
    means = x.new_zeros(len(classes), x.shape[1]).index_add_(0, index, x) / sizes[:, None]
    total = (x - x.mean(0)).square().sum()
    between = (sizes[:, None] * (means - x.mean(0)).square()).sum()
    return float(between / total) if total > 0 else None


def associated(pipeline: Composition, train: Any, test: Any) -> Iterator[str]:
    """A line for each column that a condition reads and that holds much of the label."""
    yield from _associated(pipeline, [*_columns(pipeline.dataset.schema(), train, test)])


def _associated(pipeline: Composition, columns: list[dict[str, Any]]) -> Iterator[str]:
    read = {trait(each, "column") for each in pipeline.built_conditions.values()}
    read |= {*pipeline.built_conditions}
    for row in columns:
        told = row["of label"]
        if row["column"] in read and told is not None and told > STRONG:
            yield (
                f"the condition {row['column']!r} and the label go together ({told:.0%}): a network that"
                " reads the one in place of the other looks good on a test split, or a validation part,"
                f' where they go together too; {{use = "fairness", column = "{row["column"]}"}} has the'
                " worst group"
            )


def _of_tables(parts: Any, train: Any, settings: Any) -> Iterator[str]:
    """Problems of conditions that are fitted once, and the effect of kernels on them, without a network."""
    tables = Tables(parts.conditions, len(train), settings.seed)
    tables.keep_once(train)
    objective, once = parts.objective, tuple(tables.tables)
    read = frozenset({*objective.conditions, parts.sampler_on})
    begun = Beginning(
        step=0,
        total=0,
        settings=settings,
        rate=0.0,
        objective=objective,
        read=read,
        tables=tables,
        fresh=once,
        temperatures=(),
    )
    for finding in UnfitCondition().begin(begun):
        yield finding.line
    sampler = EpochSampler(parts, tables, settings, train)  # this makes one sampler for all kernels
    for reading in kernel_readings(objective):
        first, *others = names = reading.names
        if not all(name in tables.tables for name in names):
            continue
        given = {name: tables.with_values(name, *names) for name in names}
        findings = Findings()
        seen = check_kernel(reading, given, findings)
        if seen and not findings.found:
            scales = "" if others else scales_of(reading.kernel, given[first].values)
            yield (
                f"{type(reading.kernel).__name__} on {reading.name!r}: another sample has"
                f" {seen['surviving_weight']:.2g} of a sample's weight with itself on average, as"
                f" {seen['effective_neighbors']:.0f} neighbors of equal weight"
                + (f"; sensible scales are {scales}" if scales else "")
            )
            if parts.sampler_on in (None, *tables.tables):
                yield _in_batches(reading, tables, sampler())


def neighbors_in_batches(reading: KernelReading, tables: Tables, sampler: Sampler) -> float:
    """The effective number of neighbors of an anchor in its batch.

    It is ``(sum w)^2 / sum w^2`` of the kernel's weights w of the other samples of the batch: the
    number of samples with equal weight that would have the same effect; 0 if no sample has weight.
    The mean is over anchors and the first batches of an epoch, without samples that have no value
    of the condition.

    Args:
        reading: The kernel and its conditions.
        tables: The tables of these conditions.
        sampler: The sampler of the run; of partners, the first is taken.
    """
    lost = torch.stack([tables.variables[name].missing for name in reading.names]).any(0)
    total, anchors = 0.0, 0
    for batch in islice(sampler.batches(0), BATCHES):
        rows = batch if batch.ndim == 1 else batch[:, 0]
        rows = rows[~lost[rows]][:LARGEST]
        if len(rows):
            values = {name: mapped.rows(tables[name].values, rows) for name in reading.names}
            total += len(rows) * float(describe_kernel(reading.matrix(values))[1])
            anchors += len(rows)
    return total / max(anchors, 1)


def _in_batches(reading: KernelReading, tables: Tables, sampler: Sampler) -> str:
    number = neighbors_in_batches(reading, tables, sampler)
    line = (
        f"effective neighbors per anchor in a batch, by {type(reading.kernel).__name__} on"
        f" {reading.name!r}: {number:.1f}"
    )
    if number >= FEW:
        return line
    wider = "" if getattr(reading.kernel, "scale", None) is None else ", or a larger scale"
    return (
        f"{line}; hardly two samples of a batch are alike: take a sampler that puts similar samples into a"
        f" batch, such as m_per_class or same_condition{wider}"
    )


def _step(pipeline: Composition, parts: Any, train: Any, samples: int) -> dict[str, float]:
    """Make a few steps on a few of the run's samples, in a temporary folder."""
    from pytorch_lightning import Callback

    settings = pipeline.settings
    batch = settings.batch_size // settings.processes
    size = min(len(train), STEPS * batch * settings.accumulate)
    few = Annotated(data.Subset(train, range(size)), *annotations_of(train, range(size)))
    times: list[float] = []

    class Clock(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times.append(time.perf_counter())

    once = replace(
        settings, epochs=1, warmup_epochs=0, batch_size=batch, devices=1, nodes=1, log_every=STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try_out(parts, few, once, Clock())
    between = [b - a for a, b in pairwise(times)][1:]
    if not between:
        return {}
    seconds = statistics.median(between)
    return {
        "seconds": seconds * settings.accumulate,
        "hours": seconds * settings.length(max(1, samples // settings.batch_size)).batches / 3600,
        "gigabytes": _memory() / 1e9,
    }


def _memory() -> float:
    """The peak of the GPU's memory in bytes, else this process's memory."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024.0

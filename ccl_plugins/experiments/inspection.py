"""What is known of a pipeline's data and of its cost before it is trained."""

from __future__ import annotations

import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import data

from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.origin import naming
from ccl_plugins.experiments.requirements import check_columns
from ccl_plugins.experiments.train import build_parts, try_out
from ccl_plugins.information.entropies import entropy, information
from ccl_plugins.metadata.values import missing_rows
from ccl_plugins.protocols import ValueType, trait
from ccl_plugins.training.findings import Findings
from ccl_plugins.training.kernel_check import check_kernel, kernels_read, scales_of, together
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.symptoms.conditions import UnfitCondition
from ccl_plugins.watching.symptoms.symptom import Beginning

STEPS = 6
"""Optimizer steps that are timed; the first two are left out."""

STRONG = 0.5
"""The share of the label that a condition tells, above which it is said."""


@dataclass(frozen=True)
class Inspection:
    """What was found.

    Args:
        columns: For each column of the metadata: ``column``, ``type``, ``values`` (how many differ),
            ``missing`` training samples, ``least`` (the samples of the rarest class), ``chance`` (the share
            of the most frequent class of the test split, which guessing reaches) and ``of label``, the
            share of the label that it tells: of the label's entropy for classes, and of the numbers'
            variance between labels for numbers.
        samples: How many samples each split has.
        notes: What looks wrong, and how a kernel sees a condition, one line each.
        step: ``seconds`` of an optimizer step, ``hours`` of the whole run without evaluation, and
            ``gigabytes`` of memory at most; empty if no step was made.
    """

    columns: list[dict[str, Any]]
    samples: Mapping[str, int]
    notes: list[str] = field(default_factory=list)
    step: Mapping[str, float] = field(default_factory=dict)


def inspect_file(path: str | Path, *, quick: bool = False) -> Inspection:
    """`inspect` the pipeline of a TOML file, with the warnings while it is composed among the notes."""
    return inspect_composed(lambda: Composition.from_toml(path), quick=quick)


def inspect_composed(compose: Callable[[], Composition], *, quick: bool = False) -> Inspection:
    """`inspect` the pipeline that is composed, with the warnings while it is composed among the notes."""
    notes: list[str] = []
    with _noting(notes):
        pipeline = compose()
    inspection = inspect(pipeline, quick=quick)
    return replace(inspection, notes=[*notes, *inspection.notes])


def inspect(pipeline: Composition, *, quick: bool = False) -> Inspection:
    """Read a pipeline's data and make a few steps, without a run's folder.

    Args:
        pipeline: The pipeline.
        quick: Whether neither all image files are decoded nor steps are made.

    Raises:
        ValueError: For what would keep the pipeline from training.
    """
    from ccl_plugins.metadata.groups import check_apart
    from ccl_plugins.training import CannotBegin, first_use
    from ccl_plugins.training.randomness import seed_everything
    from ccl_plugins.training.rehearsal import rehearse
    from ccl_plugins.training.sizes import widths

    notes: list[str] = []
    seed_everything(pipeline.settings.seed)
    check_columns(pipeline.built_evaluators, pipeline.dataset)
    with naming(pipeline), _noting(notes):
        parts = build_parts(pipeline)
        splits = {name: parts.dataset(name) for name in ("train", "test")}
        train = splits["train"]
        check_apart(train, splits["test"])
        unreadable, kinds = ([], []) if quick else _of_files(splits)
        notes += [*unreadable, *kinds]
        step: Mapping[str, float] = {}
        if not unreadable:
            first_use.check_columns(parts.transform, train)
            widths(parts, train, pipeline.settings)
        rehearse(parts, train, pipeline.settings)
        columns = [*_columns(parts.dataset.schema(), *splits.values())]
        notes += _associated(pipeline, columns)
        notes += _of_tables(parts, train, pipeline.settings)
        if not quick and not unreadable:
            try:
                step = _step(pipeline, parts, train)
            except CannotBegin as error:  # all samples were tried above
                notes.append(f"no step was timed, since a few of the samples do not do: {error}")
    return Inspection(columns, {n: len(each) for n, each in splits.items()}, notes, step)


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
        if name not in train.metadata:  # it is chosen away, or computed on use
            continue
        values = torch.as_tensor(train.metadata[name])
        missing = missing_rows(values, value_type)
        known = values[~missing]
        row: dict[str, Any] = {"column": name, "type": value_type}
        row["values"] = len(known.unique(dim=0)) if len(known) else 0
        row["missing"] = int(missing.sum())
        row["least"] = row["chance"] = row["of label"] = None
        if len(known) and value_type == "categorical" and known.ndim == 1:
            row["least"] = int(known.unique(return_counts=True)[1].min())
            seen = torch.as_tensor(test.metadata[name])
            seen = seen[~missing_rows(seen, value_type)]
            if len(seen):
                row["chance"] = float(seen.unique(return_counts=True)[1].max()) / len(seen)
        if name != "label" and schema.get("label", "categorical") == "categorical":
            both = ~missing & (label >= 0)
            row["of label"] = _told(values[both], label[both], value_type)
        yield row


def _told(values: Tensor, label: Tensor, value_type: ValueType) -> float | None:
    """The share of the label's entropy that ids tell, or of the variance of numbers between labels."""
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
    """A line for each column that a condition reads and that tells much of the label of two splits."""
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


def _of_files(splits: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """A line for each split with images that cannot be read, and with others than plain ones."""
    lines, kinds = [], []
    for name, split in splits.items():
        if not hasattr(split, "examined"):
            continue
        unreadable, counted = split.examined()
        if unreadable:
            first = "; ".join(f"{each.path}: {each.reason}" for each in unreadable[:5])
            more = f"; and {len(unreadable) - 5} more" if len(unreadable) > 5 else ""
            lines.append(
                f"{len(unreadable)} of {len(split)} images of {name} cannot be read: {first}{more};"
                ' on_error = "skip" of the data set leaves them out'
            )
        if any("pages" in kind or not kind.startswith("uint8") for kind in counted):
            each = "; ".join(f"{count} of {kind}" for kind, count in counted.most_common())
            kinds.append(f"images of {name}: {each}")
    return lines, kinds


def _of_tables(parts: Any, train: Any, settings: Any) -> Iterator[str]:
    """What is wrong with conditions that are fitted once, and how kernels see them, without a network."""
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
    for kernel, names in kernels_read(objective):
        if not all(name in tables.tables for name in names):
            continue
        given: Any = {name: tables.known(name, *names) for name in names}
        given = given if len(names) > 1 else given[names[0]]
        findings = Findings()
        name = together(names)
        seen = check_kernel(kernel, given, name, findings)
        if seen and not findings.found:
            scales = scales_of(kernel, given.values) if len(names) == 1 else ""
            yield (
                f"{type(kernel).__name__} on {name!r}: another sample has {seen['surviving_weight']:.2g}"
                " of a sample's weight with itself on average, as"
                f" {seen['effective_neighbors']:.0f} neighbors of equal weight"
                + (f"; sensible scales are {scales}" if scales else "")
            )


def _step(pipeline: Composition, parts: Any, train: Any) -> dict[str, float]:
    """Make a few steps on a few samples in a folder that is deleted."""
    from pytorch_lightning import Callback

    from ccl_plugins.datasets.annotated import Annotated, rows_of

    settings = pipeline.settings
    batch = settings.batch_size // settings.processes
    size = min(len(train), STEPS * batch * settings.accumulate)
    few = Annotated(data.Subset(train, range(size)), *rows_of(train, range(size)))
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
    batches = len(train) // settings.batch_size * settings.epochs
    if settings.max_steps is not None:
        batches = min(batches, settings.max_steps * settings.accumulate)
    return {
        "seconds": seconds * settings.accumulate,
        "hours": seconds * batches / 3600,
        "gigabytes": _memory() / 1e9,
    }


def _memory() -> float:
    """Bytes: of the GPU at most, else of this process."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024.0

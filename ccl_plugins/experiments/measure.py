"""The measurement of frozen features by a pipeline's evaluators."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ccl_registry as engine
from ccl_plugins.evaluators.columns import measured_by
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.origin import naming
from ccl_plugins.experiments.recorded import Recorded
from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.protocols import Frozen, Measurement, Role, UndefinedMetric, trait


def freeze(
    method: Any,
    pipeline: Composition | Recorded,
    workers: int | None,
    *splits: Any,
    projections: bool,
    folder: Path | None = None,
) -> list[Frozen]:
    """The frozen features of splits, computed on the device that holds the method.

    Args:
        method: The method, or what stands for it.
        pipeline: Its ``transform`` is applied.
        workers: Processes that read images; None: as many as help.
        splits: The splits.
        projections: Whether views are projected too, as `read_projections` says.
        folder: Where large features are put into files without names; None: they stay in memory.
    """
    from ccl_plugins.training.features import frozen_features
    from ccl_plugins.training.loader import default_workers

    if workers is None:
        workers = default_workers(1, next(method.parameters()).device.type != "cpu")
    with naming(pipeline):
        return [
            frozen_features(
                method,
                split,
                pipeline.transform,
                workers=workers,
                projections=projections,
                folder=folder,
            )
            for split in splits
        ]


def read_projections(evaluators: Iterable[Any]) -> bool:
    """Whether one of the built evaluators reads projections."""
    return any(trait(each, "reads_projections") for each in evaluators)


def read_original(evaluators: Iterable[Any]) -> bool:
    """Whether one of the built evaluators reads the features before training."""
    return any(trait(each, "reads_original") for each in evaluators)


def measure(
    pipeline: Composition | Recorded,
    train: Frozen,
    test: Frozen,
    *,
    evaluators: Iterable[tuple[Any, Any]] | None = None,
) -> dict[str, Measurement]:
    """What evaluators measure of frozen features, by name; all read the same features.

    Args:
        pipeline: The pipeline, or what is read back of it.
        train: What evaluators are fitted to.
        test: What they are measured on.
        evaluators: The choice of each with what it built; None: the pipeline's.

    Raises:
        ValueError: If an evaluator returns no measurements, or one whose name another one gave too.

    Warns:
        UserWarning: For an evaluator whose numbers the samples do not define, and for a number that is not
            finite; they are left out.
    """
    measured: dict[str, Measurement] = {}
    with naming(pipeline):
        if evaluators is None:
            evaluators = zip(pipeline.evaluators, pipeline.built_evaluators, strict=True)
        for choice, evaluator in evaluators:
            try:
                given = _checked(evaluator, measured_by(evaluator, train, test))
            except UndefinedMetric as error:
                warnings.warn(f"the evaluator {choice!r} is left out: {error}", stacklevel=2)
                continue
            for each in given:
                if not math.isfinite(each.value):
                    warnings.warn(
                        f"{each.name} of the evaluator {choice!r} is {each.value}, and left out",
                        stacklevel=2,
                    )
                    continue
                if each.name in measured:
                    raise ValueError(
                        f"two evaluators give {each.name!r}, the second is {type(evaluator).__name__}:"
                        " leave one of them out"
                    )
                role = role_of(each.column, pipeline.built_conditions)
                measured[each.name] = replace(each, role=role, within=trait(evaluator, "within"))
    return measured


def measure_to_choose(
    pipeline: Composition | Recorded,
    train: Frozen,
    on: Frozen | None = None,
    *,
    evaluators: Iterable[tuple[Any, Any]] | None = None,
) -> dict[str, Measurement]:
    """What evaluators measure of the validation part of a training split, or of other data.

    Args:
        pipeline: The pipeline, or what is read back of it.
        train: The whole training split.
        on: Other data to choose by, with evaluators fitted to the whole training split.
        evaluators: The choice of each with what it built; None: the pipeline's.

    Raises:
        ValueError: As `measure`, and for a training split without a validation part.

    Warns:
        UserWarning: As `measure`, and for an evaluator that reads the features before training.
    """
    if evaluators is None:
        evaluators = zip(pipeline.evaluators, pipeline.built_evaluators, strict=True)
    able = []
    for choice, evaluator in evaluators:
        if trait(evaluator, "reads_original"):
            warnings.warn(
                f"the evaluator {choice!r} is left out where runs are chosen: it reads the features before"
                " training, which a run keeps of its test split alone",
                stacklevel=2,
            )
        else:
            able.append((choice, evaluator))
    known, seen = held_out(train) if on is None else (train, on)
    measured = measure(pipeline, known, seen, evaluators=able)
    return {
        name: replace(each, sentence=each.sentence.replace("test samples", "validation samples"))
        for name, each in measured.items()
    }


def held_out(train: Frozen) -> tuple[Frozen, Frozen]:
    """A training split in two: for training, and for validation."""
    rows, held = validation_rows(len(train.features), train.groups)
    return train.take(rows), train.take(held)


def role_of(column: str | None, conditions: Mapping[str, Any]) -> Role | None:
    """What a column is in a pipeline with these conditions."""
    if column is None:
        return None
    if column == "label":
        return "label"
    read = {trait(each, "column") for each in conditions.values()}
    return "condition" if column in conditions or column in read else "other"


def _checked(evaluator: Any, given: Any) -> Sequence[Measurement]:
    """What an evaluator returned, if it is measurements."""
    if not isinstance(given, list | tuple) or not all(map(_is_measurement, given)):
        raise ValueError(
            f"the evaluator {type(evaluator).__name__} must return a list of measurements, as"
            f" [Measurement('knn/top1', 0.9)], not {engine.short_repr(given)}"
        )
    return given


def _is_measurement(each: Any) -> bool:
    number = isinstance(each, Measurement) and isinstance(each.value, float | int)
    return number and not isinstance(each.value, bool)

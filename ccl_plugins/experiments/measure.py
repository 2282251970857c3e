"""The measurements of frozen features by a pipeline's evaluators, and a run's files of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import ccl_registry as engine
from ccl_plugins.evaluators.columns import measured_by
from ccl_plugins.experiments.components import Components
from ccl_plugins.experiments.origin import naming_component
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.protocols import Frozen, Measurement, Role, UndefinedMetric, trait
from ccl_plugins.training.features import frozen_features
from ccl_plugins.training.loader import default_workers

Time = Literal["before", "after", "validation"]
"""The time of a measurement: before training, after it, or after it on a part of the training split."""

TIMES: tuple[Time, ...] = ("before", "after", "validation")


@dataclass(frozen=True)
class Measured:
    """The measurements of a run by name, and their costs.

    Args:
        before: Measurements of the backbone before training.
        after: Measurements of the trained weights.
        validation: Measurements of the trained weights on a part of the training split.
        costs: Seconds of training, of its monitors and of the last evaluation, and the monitors' share.
    """

    before: Mapping[str, Measurement] = field(default_factory=dict)
    after: Mapping[str, Measurement] = field(default_factory=dict)
    validation: Mapping[str, Measurement] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)


def numbers(measurements: Mapping[str, Measurement]) -> dict[str, float]:
    """The values of measurements, by name."""
    return {name: float(each.value) for name, each in measurements.items()}


def freeze(
    method: Any,
    pipeline: Components,
    workers: int | None,
    *splits: Any,
    projections: bool,
    folder: Path | None = None,
) -> list[Frozen]:
    """The frozen features of splits, computed on the device that holds the method.

    Args:
        method: The method, or its replacement.
        pipeline: Its ``transform`` is applied.
        workers: Processes that read images; None: chosen automatically.
        splits: The splits.
        projections: Whether views are projected too, see `any_reads`.
        folder: The folder for unnamed files of large features; None: they stay in memory.
    """
    if workers is None:
        workers = default_workers(1, next(method.parameters()).device.type != "cpu")
    with naming_component(pipeline):
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


def any_reads(evaluators: Iterable[Any], what: str) -> bool:
    """Whether one of the built evaluators has the trait ``reads_projections``, ``reads_original``, ..."""
    return any(trait(each, f"reads_{what}") for each in evaluators)


def measure(
    pipeline: Components, train: Frozen, test: Frozen, evaluators: Iterable[tuple[Any, Any]]
) -> dict[str, Measurement]:
    """Evaluators' measurements of frozen features, by name; all read the same features.

    Args:
        pipeline: The pipeline, or the parts that are read back.
        train: The split that evaluators are fitted to.
        test: The split that they are measured on.
        evaluators: The choice of each with what it built, such as the pipeline's ``chosen_evaluators``.

    Raises:
        ValueError: If an evaluator returns no measurements, or two evaluators return the same name.

    Warns:
        UserWarning: For measurements that the samples do not define or that are not finite; they
            are left out.
    """
    measured: dict[str, Measurement] = {}
    with naming_component(pipeline):
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
    pipeline: Components,
    train: Frozen,
    evaluators: Iterable[tuple[Any, Any]],
    on: Frozen | None = None,
) -> dict[str, Measurement]:
    """Evaluators' measurements of the validation part of a training split, or of other data.

    Args:
        pipeline: The pipeline, or the parts that are read back.
        train: The whole training split.
        evaluators: See `measure`.
        on: Other data for the choice, with evaluators fitted to the whole training split.

    Raises:
        ValueError: See `measure`, and for a training split without a validation part.

    Warns:
        UserWarning: See `measure`, and for an evaluator that reads the features before training.
    """
    able = []
    for choice, evaluator in evaluators:
        if trait(evaluator, "reads_original"):
            warnings.warn(
                f"the evaluator {choice!r} is left out of the choice between runs: it reads the "
                "features before training, which a run keeps only for its test split",
                stacklevel=2,
            )
        else:
            able.append((choice, evaluator))
    fitted_to, measured_on = held_out(train) if on is None else (train, on)
    measured = measure(pipeline, fitted_to, measured_on, able)
    return {
        name: replace(each, sentence=each.sentence.replace("test samples", "validation samples"))
        for name, each in measured.items()
    }


def held_out(train: Frozen) -> tuple[Frozen, Frozen]:
    """A training split in two: for training, and for validation."""
    rows, held = validation_rows(len(train.features), train.groups)
    return train.take(rows), train.take(held)


def role_of(column: str | None, conditions: Mapping[str, Any]) -> Role | None:
    """The role of a column in a pipeline with these conditions."""
    if column is None:
        return None
    if column == "label":
        return "label"
    read = {trait(each, "column") for each in conditions.values()}
    return "condition" if column in conditions or column in read else "other"


def _checked(evaluator: Any, given: Any) -> Sequence[Measurement]:
    """The result of an evaluator, after a check that it is a list of measurements."""
    if not isinstance(given, list | tuple) or not all(map(_is_measurement, given)):
        raise ValueError(
            f"the evaluator {type(evaluator).__name__} must return a list of measurements, such as "
            f"[Measurement('knn/top1', 0.9)], not {engine.short_repr(given)}"
        )
    return given


def _is_measurement(each: Any) -> bool:
    number = isinstance(each, Measurement) and isinstance(each.value, float | int)
    return number and not isinstance(each.value, bool)


# The files of a run.


def read_measurements(run: RunFolder) -> Measured:
    """The stored measurements of a run; empty before the first.

    Warns:
        UserWarning: For a file that is damaged or has another content; it is not used.
    """
    try:
        given = run.read(run.measurements)
        if given is None:
            return Measured()
        measured = {
            time: {each["name"]: _measurement(each) for each in given[time]} for time in TIMES
        }
        return Measured(**measured, costs={k: _number(v) for k, v in given["costs"].items()})
    except DamagedFile as error:
        reason = f"{error}; nothing of it is used"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = engine.escaped(str(error))
        reason = f"{run.measurements} must hold measurements and costs ({said}): it is not used"
    warnings.warn(reason, stacklevel=2)
    return Measured()


def write_measurements(
    run: RunFolder,
    measured: Mapping[Time, Mapping[str, Measurement]] | None = None,
    costs: Mapping[str, float] | None = None,
) -> None:
    """Replace older measurements, and add costs to the stored ones.

    Both files are written atomically, with their checksums in ``SHA256SUMS``; ``metrics.json`` has
    only the numbers after training, and always matches the measurements.
    """
    changed: dict[str, Any] = {str(time): each for time, each in (measured or {}).items()}
    kept = read_measurements(run)
    kept = replace(kept, **changed, costs={**kept.costs, **(costs or {})})
    run.adopt()
    if "after" in changed:
        run.delete(run.metrics)
    rows: dict[str, Any] = {
        time: [asdict(each) for each in getattr(kept, time).values()] for time in TIMES
    }
    run.write(run.measurements, {**rows, "costs": kept.costs})
    if "after" in changed:
        run.write(run.metrics, numbers(kept.after))


def forget_measurements(run: RunFolder) -> None:
    """Delete the measurements of a run's weights, because these are trained further."""
    if run.measurements.exists():
        write_measurements(run, {"after": {}, "validation": {}})
    run.delete(run.metrics)


def _measurement(given: Mapping[str, Any]) -> Measurement:
    for text in (given["name"], given["sentence"], given["column"] or ""):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is not a text")
    ends = given["interval"]
    if ends is not None:
        low, high = map(_number, ends)
        ends = low, high
    return Measurement(**{**given, "value": _number(given["value"]), "interval": ends})


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is not a number")
    number: float = value
    return number

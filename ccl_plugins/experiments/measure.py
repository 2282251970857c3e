"""The measurement of frozen features by a pipeline's evaluators, and its log."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.layout import EVENTS
from ccl_plugins.experiments.origin import naming
from ccl_plugins.metadata.validation import validation_rows
from ccl_plugins.protocols import Frozen, Measurement, Role, UndefinedMetric

if TYPE_CHECKING:
    from ccl_plugins.training.parts import Parts


def freeze(parts: Parts, composition: Composition, *splits: Any) -> list[Frozen]:
    """The frozen features of splits, computed on the device that holds the method."""
    from ccl_plugins.training.features import frozen_features
    from ccl_plugins.training.loader import default_workers

    workers = composition.settings.workers
    if workers is None:
        workers = default_workers(1, next(parts.method.parameters()).device.type != "cpu")
    with naming(composition):
        return [
            frozen_features(parts.method, split, parts.transform, workers=workers)
            for split in splits
        ]


def measure(
    composition: Composition,
    train: Frozen,
    test: Frozen,
    *,
    evaluators: Iterable[tuple[Any, Any]] | None = None,
) -> dict[str, Measurement]:
    """What evaluators measure of frozen features, by name; all read the same features.

    Args:
        composition: The pipeline.
        train: What evaluators are fitted to.
        test: What they are measured on.
        evaluators: The choice of each with what it built; None: the pipeline's.

    Raises:
        ValueError: If an evaluator returns no measurements, or one whose name another one gave too.

    Warns:
        UserWarning: For an evaluator whose numbers the samples do not define; it is left out.
    """
    measured: dict[str, Measurement] = {}
    with naming(composition):
        own = zip(composition.evaluators, composition.built_evaluators, strict=True)
        for choice, evaluator in own if evaluators is None else evaluators:
            try:
                found = _checked(evaluator, evaluator(train, test))
            except UndefinedMetric as error:
                warnings.warn(f"the evaluator {choice!r} is left out: {error}", stacklevel=2)
                continue
            for each in found:
                if each.name in measured:
                    raise ValueError(
                        f"two evaluators give {each.name!r}, the second is {type(evaluator).__name__}:"
                        " leave one of them out"
                    )
                role = role_of(each.column, composition.built_conditions)
                measured[each.name] = replace(each, role=role)
    return measured


def held_out(train: Frozen) -> tuple[Frozen, Frozen]:
    """A training split in two: for training, and for validation."""
    rows, held = validation_rows(len(train.features))
    return train.take(rows), train.take(held)


def role_of(column: str | None, conditions: Mapping[str, Any]) -> Role | None:
    """What a column is in a pipeline with these conditions."""
    if column is None:
        return None
    if column == "label":
        return "label"
    read = {getattr(each, "column", None) for each in conditions.values()}
    return "condition" if column in conditions or column in read else "other"


def _checked(evaluator: Any, found: Any) -> Sequence[Measurement]:
    """What an evaluator returned, if it is measurements."""
    if not isinstance(found, list | tuple) or not all(map(_is_measurement, found)):
        raise ValueError(
            f"the evaluator {type(evaluator).__name__} must return a list of measurements, as"
            f" [Measurement('knn/top1', 0.9)], not {engine.represented(found)}"
        )
    return found


def _is_measurement(each: Any) -> bool:
    number = isinstance(each, Measurement) and isinstance(each.value, float | int)
    return number and not isinstance(each.value, bool)


def log(folder: Path, metrics: Mapping[str, float], step: int) -> None:
    """Write metrics as TensorBoard events ``evaluation/<name>`` of a step; 0 is before training.

    They take the place of those that were measured before at this step.
    """
    if not metrics:
        return
    with replacing_events(folder, f".evaluation-{step}") as writer:
        for name, value in metrics.items():
            writer.add_scalar(f"evaluation/{name}", value, step)


@contextmanager
def replacing_events(folder: Path, suffix: str) -> Iterator[Any]:
    """A writer of TensorBoard events whose file takes the place of those with the same suffix."""
    from torch.utils.tensorboard import SummaryWriter

    earlier = set(folder.glob(f"{EVENTS}*{suffix}"))
    with SummaryWriter(str(folder), filename_suffix=suffix) as writer:
        yield writer
    for file in folder.glob(f"{EVENTS}*{suffix}"):
        if file in earlier:
            file.unlink()
        else:  # TensorBoard reads by name: after the training's events of the same second
            second, rest = file.name.removeprefix(EVENTS).split(".", 1)
            file.rename(file.with_name(f"{EVENTS}{second}~{rest}"))


def log_everywhere(
    folder: Path, loggers: Iterable[Any], metrics: Mapping[str, float], step: int
) -> None:
    """Give metrics to a run's loggers, as ``evaluation/<name>`` of a step."""
    from ccl_plugins.training.trainer import Events

    for logger in loggers:
        if isinstance(logger, Events):
            log(folder, metrics, step)
        else:
            logger.log_metrics({f"evaluation/{k}": v for k, v in metrics.items()}, step=step)


def log_again(
    folder: Path,
    chosen: Iterable[Mapping[str, Any]],
    metrics: Mapping[str, float],
    step: int,
    services: bool,
) -> None:
    """Give metrics to the loggers of a run whose training has ended.

    Args:
        folder: The run's folder.
        chosen: The pipeline's loggers.
        metrics: The metrics.
        step: The step of the weights that were measured.
        services: Whether those of services are opened again; they may ask for a password.
    """
    from ccl_plugins.watching.loggers import build, close

    again = [dict(each) for each in chosen if services or each["use"] in ("tensorboard", "csv")]
    loggers = build(again, folder, step)
    log_everywhere(folder, loggers, metrics, step)
    for logger in loggers:
        logger.finalize("success")
    close(loggers)

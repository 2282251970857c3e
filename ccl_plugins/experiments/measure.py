"""The measurement of frozen features by a pipeline's evaluators."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.origin import naming
from ccl_plugins.metadata.validation import validation_rows
from ccl_plugins.protocols import Frozen, UndefinedMetric

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
) -> dict[str, float]:
    """The metrics of frozen features by evaluators, which all read the same features.

    Args:
        composition: The pipeline.
        train: What evaluators are fitted to.
        test: What they are measured on.
        evaluators: The choice of each with what it built; None: the pipeline's.

    Raises:
        ValueError: If an evaluator returns no numbers, or a metric that another one returned too.

    Warns:
        UserWarning: For an evaluator whose metrics the samples do not define; they are left out.
    """
    metrics: dict[str, float] = {}
    with naming(composition):
        own = zip(composition.evaluators, composition.built_evaluators, strict=True)
        for choice, evaluator in own if evaluators is None else evaluators:
            try:
                found = _checked(evaluator, evaluator(train, test))
            except UndefinedMetric as error:
                warnings.warn(f"the evaluator {choice!r} is left out: {error}", stacklevel=2)
                continue
            if twice := sorted(metrics.keys() & found.keys()):
                raise ValueError(
                    f"two evaluators give {twice[0]!r}, the second is {type(evaluator).__name__}: leave one"
                    " of them out"
                )
            metrics |= found
    return metrics


def held_out(train: Frozen) -> tuple[Frozen, Frozen]:
    """A training split in two: for training, and for validation."""
    rows, held = validation_rows(len(train.features))
    return train.take(rows), train.take(held)


def _checked(evaluator: Any, found: Any) -> Mapping[str, float]:
    """What an evaluator returned, if it is numbers by name."""
    wrong = [
        f"{key!r}: {value!r}"
        for key, value in (found.items() if isinstance(found, Mapping) else ())
        if not isinstance(key, str) or not isinstance(value, float | int) or isinstance(value, bool)
    ]
    if wrong or not isinstance(found, Mapping):
        raise ValueError(
            f"the evaluator {type(evaluator).__name__} must return floats by name, as {{'knn/top1': 0.9}},"
            f" not {wrong[0] if wrong else f'a {type(found).__name__}'}"
        )
    return found

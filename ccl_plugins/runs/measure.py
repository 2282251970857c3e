"""The measurement of frozen features by a pipeline's evaluators, and its log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.pipeline.composition import Composition
from ccl_plugins.runs.layout import EVENTS
from ccl_plugins.runs.origin import naming

if TYPE_CHECKING:
    from ccl_plugins.training.parts import Parts


def measure(parts: Parts, composition: Composition, train: Any, test: Any) -> dict[str, float]:
    """The metrics of built parts, by the pipeline's evaluators, on the device that holds the method.

    All evaluators read the same features; without an evaluator none are computed.
    """
    from ccl_plugins.training.features import frozen_features
    from ccl_plugins.training.loader import default_workers

    if not composition.built_evaluators:
        return {}
    workers = composition.settings.workers
    if workers is None:
        workers = default_workers(1, next(parts.method.parameters()).device.type != "cpu")
    metrics: dict[str, float] = {}
    with naming(composition):
        frozen = [
            frozen_features(parts.method, split, parts.views, workers=workers)
            for split in (train, test)
        ]
        for evaluator in composition.built_evaluators:
            metrics |= _checked(evaluator, evaluator(*frozen))
    return metrics


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


def log(folder: Path, metrics: Mapping[str, float], step: int) -> None:
    """Write metrics as TensorBoard events ``evaluation/<name>`` of a step; 0 is before training.

    They take the place of those that were measured before at this step.
    """
    from torch.utils.tensorboard import SummaryWriter

    if not metrics:
        return
    suffix = f".evaluation-{step}"
    earlier = set(folder.glob(f"{EVENTS}*{suffix}"))
    with SummaryWriter(str(folder), filename_suffix=suffix) as writer:
        for name, value in metrics.items():
            writer.add_scalar(f"evaluation/{name}", value, step)
    for file in folder.glob(f"{EVENTS}*{suffix}"):
        if file in earlier:
            file.unlink()
        else:  # TensorBoard reads by name: after the training's events of the same second
            second, rest = file.name.removeprefix(EVENTS).split(".", 1)
            file.rename(file.with_name(f"{EVENTS}{second}~{rest}"))

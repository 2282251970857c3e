"""The measurement of frozen features by a pipeline's evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccl_plugins.pipeline.composition import Composition
from ccl_plugins.runs.origin import naming

if TYPE_CHECKING:
    from ccl_plugins.training.parts import Parts


def measure(parts: Parts, composition: Composition, train: Any, test: Any) -> dict[str, float]:
    """The metrics of built parts, by the pipeline's evaluators, on the device that holds the method."""
    from ccl_plugins.training.features import frozen_features
    from ccl_plugins.training.loader import default_workers

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
            metrics |= evaluator(*frozen)
    return metrics

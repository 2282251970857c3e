"""The laws of evaluators."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import one_hot

from ccl_plugins.protocols import Frozen
from ccl_plugins.testing.assertions import require, require_equal, require_unchanged
from ccl_plugins.testing.inputs import CLASSES, normal
from ccl_plugins.testing.subject import Subject


def splits() -> tuple[Frozen, Frozen]:
    """Features for training and for testing."""
    return _frozen(60, seed=0), _frozen(30, seed=10)


def _frozen(n: int, seed: int) -> Frozen:
    """Features that depend on class and color."""
    label = torch.arange(n) % CLASSES
    color = normal(n, 3, seed=seed).sigmoid()
    features = torch.cat([one_hot(label, CLASSES), color, torch.zeros(n, 4)], 1)
    features = features + 0.3 * normal(n, 10, seed=seed + 1)
    return Frozen(features, {"label": label, "digit": label, "color": color, "height": color[:, 0]})


def observe(subject: Subject, evaluator: Any) -> Any:
    """Its metrics."""
    return evaluator(*splits())


def check_metrics_are_named_numbers(subject: Subject) -> None:
    """An evaluator must return one or more finite floats by name, as ``"linear/top1"``."""
    metrics = subject.build()(*splits())
    named = all(isinstance(k, str) and all(k.partition("/")[::2]) for k in metrics)
    numbers = all(isinstance(v, float) and math.isfinite(v) for v in metrics.values())
    require(bool(metrics) and named and numbers, f"it returned {metrics}")


def check_is_deterministic(subject: Subject) -> None:
    """Equal features must give equal metrics."""
    evaluator = subject.build()
    first = evaluator(*splits())
    require_equal(evaluator(*splits()), first)


def check_leaves_the_features_as_they_are(subject: Subject) -> None:
    """An evaluator must not change features or metadata: other evaluators read them next."""
    given = splits()
    with require_unchanged(lambda: [(split.features, dict(split.metadata)) for split in given]):
        subject.build()(*given)

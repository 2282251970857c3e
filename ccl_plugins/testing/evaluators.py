"""The laws of evaluators."""

from __future__ import annotations

import copy
import math
from typing import Any

from ccl_plugins.protocols import Frozen
from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.inputs import frozen
from ccl_plugins.testing.subject import Subject


def splits() -> tuple[Frozen, Frozen]:
    """Features for training and for testing."""
    return frozen(60, seed=0), frozen(30, seed=10)


def observe(subject: Subject, evaluator: Any) -> Any:
    """Its metrics."""
    return evaluator(*splits())


def check_metrics_are_named_numbers(subject: Subject) -> None:
    """Metrics are finite floats by name, as ``metrics.json`` and tables need them."""
    evaluator = subject.build()
    law = 'an evaluator must return one or more finite floats by name, as "linear/top1"'
    with require_no_error(law):
        metrics = evaluator(*splits())
    named = all(isinstance(k, str) and all(k.partition("/")[::2]) for k in metrics)
    numbers = all(type(v) is float and math.isfinite(v) for v in metrics.values())
    require(law, bool(metrics) and named and numbers, f"it returned {metrics}")


def check_is_deterministic(subject: Subject) -> None:
    """Equal features give equal metrics."""
    evaluator = subject.build()
    first = evaluator(*splits())
    require_equal("equal features must give equal metrics", evaluator(*splits()), first)


def check_leaves_the_features_as_they_are(subject: Subject) -> None:
    """Features and metadata are not changed; other evaluators read them next."""
    given = splits()
    before = copy.deepcopy(given)
    subject.build()(*given)
    for now, then in zip(given, before, strict=True):
        law = "an evaluator must not change its input"
        require_equal(law, now.features, then.features, rtol=0, atol=0)
        require_equal(law, dict(now.metadata), dict(then.metadata), rtol=0, atol=0)

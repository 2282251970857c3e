"""The laws of evaluators."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ccl_plugins.protocols import Frozen
from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import frozen
from ccl_plugins.testing.subject import Subject


def splits() -> tuple[Frozen, Frozen]:
    """Features to train and to test on."""
    return frozen(60, seed=0), frozen(30, seed=10)


def observe(subject: Subject, evaluator: Any) -> Any:
    """Its metrics."""
    return evaluator(*splits())


def check_metrics_are_named_numbers(subject: Subject) -> None:
    """``metrics.json`` and tables have a column for each."""
    evaluator = subject.build()
    law = 'an evaluator must give one or more finite floats by name, as "linear/top1"'
    with may_not(law):
        metrics = evaluator(*splits())
    named = all(isinstance(k, str) and all(k.partition("/")[::2]) for k in metrics)
    numbers = all(type(v) is float and math.isfinite(v) for v in metrics.values())
    hold(law, bool(metrics) and named and numbers, f"it gave {metrics}")


def check_is_deterministic(subject: Subject) -> None:
    """The same features, the same metrics, asked for twice."""
    evaluator = subject.build()
    first = evaluator(*splits())
    agree("the same features must give the same metrics", evaluator(*splits()), first)


def check_leaves_the_features_as_they_are(subject: Subject) -> None:
    """Other evaluators read them next."""
    given = splits()
    before = copy.deepcopy(given)
    subject.build()(*given)
    for now, then in zip(given, before, strict=True):
        law = "an evaluator must not change what it is given"
        agree(law, now.features, then.features, rtol=0, atol=0)
        agree(law, dict(now.metadata), dict(then.metadata), rtol=0, atol=0)


CHECKS: list[Callable[[Subject], None]] = [
    check_metrics_are_named_numbers,
    check_is_deterministic,
    check_leaves_the_features_as_they_are,
]

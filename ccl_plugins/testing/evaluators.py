"""The laws of evaluators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from ccl_plugins.protocols import Estimate, Frozen, Images, Towers
from ccl_plugins.testing.assertions import require, require_equal, require_unchanged
from ccl_plugins.testing.inputs import CLASSES, SHAPE, WORDS, SmallBackbone, normal, seeded
from ccl_plugins.testing.subject import Subject


def splits() -> tuple[Frozen, Frozen]:
    """Features for training and for testing."""
    return _frozen(60, seed=0), _frozen(30, seed=10)


def _frozen(n: int, seed: int) -> Frozen:
    """Features that depend on class and color, with images, a network, and two towers.

    The towers' space is that of the features' first numbers: a text is near to images of its class.
    """
    label = torch.arange(n) % CLASSES
    color = normal(n, 3, seed=seed).sigmoid()
    features = torch.cat([one_hot(label, CLASSES), color, torch.zeros(n, 4)], 1)
    features = features + 0.3 * normal(n, 10, seed=seed + 1)
    columns = {
        "label": label,
        "digit": label,
        "group": torch.arange(n) // CLASSES % 2,
        "attributes": torch.stack([torch.arange(n) % k == 0 for k in (2, 3, 4)], 1).long(),
        "color": color,
        "height": color[:, 0],
    }
    pixels = normal(n, *SHAPE, seed=seed + 2)
    images = Images(torch.arange(n), lambda pieces: (pixels[rows] for rows in pieces), _network)
    captions = [f"{WORDS[i]} {row}" for row, i in enumerate(label.tolist())]
    towers = Towers(normalize(features[:, :CLASSES], dim=1), _texts, {"caption": captions})
    words = dict.fromkeys(("label", "digit"), WORDS)
    return Frozen(features, columns, images, towers, words)


def _texts(texts: Sequence[str]) -> Tensor:
    """Unit vectors of texts that name classes."""
    named = torch.tensor([[float(word in text) for word in WORDS] for text in texts])
    lengths = torch.tensor([float(len(text)) for text in texts])
    return normalize(named + 0.01 * lengths[:, None] * torch.linspace(0.5, 1, CLASSES), dim=1)


def _projections(frozen: Frozen) -> Any:
    return frozen.towers and frozen.towers.images


def _network() -> SmallBackbone:
    with seeded():
        return SmallBackbone()


def observe(subject: Subject, evaluator: Any) -> Any:
    """Its metrics, those with an interval as three numbers."""
    return {name: numbers(value) for name, value in evaluator(*splits()).items()}


def numbers(value: Any) -> Any:
    """A metric, and the ends of its interval if it has one."""
    return [float(value), value.low, value.high] if isinstance(value, Estimate) else value


def check_metrics_are_named_numbers(subject: Subject) -> None:
    """An evaluator must return one or more finite floats by name, as ``"linear/top1"``.

    The interval of an ``Estimate`` must be finite too, its lower end first.
    """
    metrics = subject.build()(*splits())
    named = all(isinstance(k, str) and all(k.partition("/")[::2]) for k in metrics)
    finite = all(isinstance(v, float) and math.isfinite(v) for v in metrics.values())
    estimates = [v for v in metrics.values() if isinstance(v, Estimate)]
    ordered = all(-math.inf < v.low <= v.high < math.inf for v in estimates)
    found = {name: numbers(value) for name, value in metrics.items()}
    require(bool(metrics) and named and finite and ordered, f"it returned {found}")


def check_is_deterministic(subject: Subject) -> None:
    """Equal features must give equal metrics."""
    evaluator = subject.build()
    first = observe(subject, evaluator)
    require_equal(observe(subject, evaluator), first)


def check_leaves_the_features_as_they_are(subject: Subject) -> None:
    """An evaluator must not change features or metadata: other evaluators read them next."""
    given = splits()
    with require_unchanged(
        lambda: [(each.features, dict(each.metadata), _projections(each)) for each in given]
    ):
        subject.build()(*given)

"""Components with one slip each, that the first steps of a run say in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.evaluators import mean
from ccl_plugins.methods import MoCoV2, SimCLR
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.protocols import Measurement
from ccl_plugins.transforms import NoiseTransform


class DrawnOnce(NoiseTransform):
    """One view is drawn, and given twice."""

    def __call__(self, image: Any) -> list[Tensor]:
        return [self._view(self.plain(image))] * self.count


class Bytes(NoiseTransform):
    """Views are of another scale than what features are computed of."""

    def plain(self, image: Any) -> Tensor:
        return 255 * super().plain(image)

    def __call__(self, image: Any) -> list[Tensor]:
        return [self._view(super(Bytes, self).plain(image)) for _ in range(self.count)]


class OwnKeys(MoCoV2):
    """Its keys are of the views of its queries."""

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, keys=torch.stack([self.key(view) for view in views[:1]]))


class OneView(SimCLR):
    """The second view is never embedded."""

    def embed(self, views):
        return super().embed([views[0], views[0]])


class Ignores(InfoNCE):
    """It declares a condition, and does not read it."""

    conditions: ClassVar[Mapping[str, Any]] = {"condition": ("categorical", "continuous")}


class Constant:
    """What it measures is in the columns alone."""

    columns: ClassVar[Mapping[str, Any]] = {"label": ("categorical",)}

    def __call__(self, train, test):
        labels = test.metadata["label"]
        words = "the share of test samples of the class 0, by the label"
        return [Measurement("constant/top1", **mean(labels == 0), sentence=words, column="label")]


SLIPS = {
    "both-views-are-equal": ("transform", DrawnOnce, 'transform = "slip"'),
    "views-have-another-scale-than-plain": ("transform", Bytes, 'transform = "slip"'),
    "keys-are-of-the-own-view": (
        "method",
        OneView,
        'method = {use = "slip", hidden = 8, dim = 4, batch_norm = false}',
    ),
    "a-condition-changes-nothing": (
        "objective",
        Ignores,
        'objective = "slip"\ncondition = "label"',
    ),
    "a-number-does-not-read-the-features": ("evaluator", Constant, 'evaluate = ["slip"]'),
}
"""By the section of its line, the kind, the class, and what a configuration has of it."""

"""The queue of earlier keys as pairs see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.numerics.precision import unit


@dataclass(frozen=True, eq=False)
class Queue:
    """Earlier keys that anchors are compared with, and the facts about their samples.

    A method stores the keys in a `ccl_plugins.methods.FeatureQueue`, whose ``add_to`` creates this
    object.

    Args:
        keys: (q, d) earlier keys, without gradient; (u, q, d) where they differ by anchor view.
        valid: (q,) False at places that are not filled yet.
        condition: By name (q,) or (q, c).
        index: (q,) dataset indices; None keeps entries of the anchor's own image as negatives.
        grams: (r, r) Gram matrices of the valid places, by the names in an objective's ``statistics()``.
    """

    keys: Tensor
    valid: Tensor
    condition: Mapping[str, Tensor] = field(default_factory=dict)
    index: Tensor | None = None
    grams: Mapping[str, Tensor] = field(default_factory=dict)

    def of_view(self, i: int) -> Tensor:
        """(q, d) keys that anchor view ``i`` is compared with."""
        return self.keys if self.keys.ndim == 2 else self.keys[i]

    def of_views(self, views: list[int]) -> Tensor:
        """(q, d) keys that anchor views are compared with; (len(views), q, d) where they differ."""
        if self.keys.ndim == 2 or views == list(range(len(self.keys))):
            return self.keys
        return torch.stack([self.keys[i] for i in views])

    def normalized(self) -> Queue:
        """The keys on the unit sphere."""
        return replace(self, keys=unit(self.keys))

    def without_missing(self, names: Iterable[str]) -> Queue:
        """This queue, with places invalid whose sample lacks a value of one of these conditions."""
        lost = torch.stack([missing_samples(self.condition[name]) for name in names]).any(0)
        return replace(self, valid=self.valid & ~lost)

"""The contract of backbones."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Backbone(Protocol):
    """An ``nn.Module`` from images to features.

    It may also declare traits; see `trait`.
    """

    @property
    def num_features(self) -> int:
        """The length f of a feature vector."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, num_features)."""

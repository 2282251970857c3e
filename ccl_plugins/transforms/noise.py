"""Views of vectors by random noise."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, below_one, non_negative, whole


class NoiseTransform:
    """Views of a vector by Gaussian noise and by setting entries to 0 at random.

    For vectors of any length, and tensors of any shape.  The noise does not adapt to the features: scale
    them first (``standardize`` of the data set ``features``).  Unlike dropout, the remaining entries are
    not scaled up.

    Args:
        std: Standard deviation of the noise on each entry, 0 or more.
        drop: Probability that an entry is set to 0, at least 0 and below 1.
        count: Number of views, 1 to 1024.

    Raises:
        ValueError: If a parameter is out of its range.
    """

    def __init__(self, *, std: float = 0.1, drop: float = 0.2, count: int = 2) -> None:
        self.std = non_negative("std", std)
        self.drop = below_one("drop", drop)
        self.count = whole("count", count, 1, DEEPEST)

    def __call__(self, image: Any) -> list[Tensor]:
        """The views, float32, each of the vector's shape."""
        vector = self.plain(image)
        return [self._view(vector) for _ in range(self.count)]

    def plain(self, image: Any) -> Tensor:
        """The vector, or a batch of them, as float32."""
        return torch.as_tensor(image).float()

    def _view(self, vector: Tensor) -> Tensor:
        noisy = vector + self.std * torch.randn(vector.shape)
        return noisy * (torch.rand(vector.shape) >= self.drop)

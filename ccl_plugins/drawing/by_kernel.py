"""Partners by any kernel, drawn by rejection."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.drawing.by_class import ByClassKernel
from ccl_plugins.drawing.by_distance import ByDistance
from ccl_plugins.drawing.partners import Partners
from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.numerics.kernel_functions import (
    conditions_of_kernel,
    diagonal_of,
    is_positive_definite,
    reads_one_hot,
    similarities,
)
from ccl_plugins.protocols import Kernel, trait

FEW = 3
"""The most columns for which boxes are cheaper than candidates from all samples, at any scale."""

TOGETHER = 64
"""The number of anchors that share candidates: fewer cost less, until calls dominate."""

CANDIDATES = 8
"""The first number of candidates per anchor; with more, anchors that share them have fewer common
partners."""

PART = 2**16
"""The number of samples at a time whose diagonal is computed."""


def by_kernel(values: Tensor, own_pair: bool, kernel: Kernel) -> Partners:
    """Partners in proportion to a kernel, by the fastest way that the kernel and the values allow.

    Raises:
        TypeError: For a kernel that does not declare ``positive_definite``.
        ValueError: For a kernel that is not positive definite, and one that names several conditions.
    """
    if names := [*conditions_of_kernel(kernel)]:
        raise ValueError(
            f"conditional_pair draws by one condition, and its kernel names several ({', '.join(names)}):"
            " give it a kernel of one, and kernels of several to an objective"
        )
    if not is_positive_definite(kernel, "conditional_pair"):
        raise ValueError(
            f"conditional_pair needs a positive definite kernel, but {kernel!r} is not one:"
            " nearest=k draws from the k nearest samples"
        )
    if values.is_floating_point():
        radial = trait(kernel, "radial")
        if radial is not None and as_vectors(values).shape[1] <= FEW:
            return ByDistance(values, own_pair, radial)
    elif values.ndim == 1 and reads_one_hot(kernel):
        return ByClassKernel(values, own_pair, kernel)
    return ByKernel(values, own_pair, kernel)


class ByKernel:
    """A partner with a probability proportional to a kernel's value; negative values count as 0.

    Exact, and usually without a row of the N x N kernel matrix: candidates are drawn uniformly, each is
    accepted with the probability ``k(a, b) / sqrt(k(a, a) max k(b, b))``, and one accepted candidate is
    taken.  Anchors without one get four times as many candidates, and in the end all samples.

    Args:
        kernel: A positive definite one, whose diagonal bounds it.
    """

    def __init__(self, values: Tensor, own_pair: bool, kernel: Kernel) -> None:
        self.values = values
        self.own_pair = own_pair
        self.kernel = kernel
        self._largest = max(float(self._diagonal(part).max()) for part in values.split(PART))

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        return torch.cat([self._draw_together(some, draws) for some in anchors.split(TOGETHER)])

    def _draw_together(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        partners, pending = anchors.clone(), torch.arange(len(anchors))
        size, candidates = len(self.values), CANDIDATES * len(anchors)
        while len(pending) and candidates < size:
            drawn = torch.from_numpy(draws.integers(size, size=candidates))
            weights = self._weights(anchors[pending], drawn)
            bound = (self._diagonal(self.values[anchors[pending]]) * self._largest).sqrt()
            chance = torch.from_numpy(draws.random((len(pending), candidates), dtype=np.float32))
            # Each anchor takes the first one accepted after a random place: after the same place,
            # anchors with similar values would have the same partner.
            shift = torch.from_numpy(draws.integers(candidates, size=(len(pending), 1)))
            turn = (torch.arange(candidates) - shift) % candidates
            turn = turn.masked_fill(chance * bound[:, None] >= weights, candidates)
            soonest, which = turn.min(1)
            has_partner = soonest < candidates
            partners[pending[has_partner]] = drawn[which[has_partner]]
            pending, candidates = pending[~has_partner], 4 * candidates
        if len(pending):
            for some in pending.split(max(1, 2**22 // size)):
                partners[some] = self._draw_from_all(anchors[some], draws)
        return partners

    def _draw_from_all(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        total = self._weights(anchors, torch.arange(len(self.values))).double().cumsum(1)
        level = torch.from_numpy(draws.random((len(anchors), 1))) * total[:, -1:]
        which = torch.searchsorted(total, level, right=True).flatten()
        return torch.where(total[:, -1] > 0, which.clamp_max(total.shape[1] - 1), anchors)

    def _weights(self, anchors: Tensor, others: Tensor) -> Tensor:
        """(n, m) the kernel, negative values as 0; 0 for an anchor itself unless it may be drawn."""
        weights = (
            similarities(self.kernel, self.values[anchors], self.values[others])
            .float()
            .clamp_min(0)
        )
        return weights if self.own_pair else weights.masked_fill(anchors[:, None] == others, 0)

    def _diagonal(self, values: Tensor) -> Tensor:
        """(n,) the kernel of each value with itself."""
        return diagonal_of(self.kernel, values).float()

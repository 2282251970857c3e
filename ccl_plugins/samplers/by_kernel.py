"""Partners by any kernel: candidates are accepted in proportion to it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.numerics.kernel_functions import diagonal_of
from ccl_plugins.protocols import Kernel
from ccl_plugins.samplers.line import FallingOnLine
from ccl_plugins.samplers.partners import ByClassKernel, Partners
from ccl_plugins.samplers.space import FallingInSpace

TOGETHER = 64
"""Anchors that choose among the same candidates; fewer cost less, until calls do."""

CANDIDATES = 8
"""How many candidates there are at first for each of these; more make their partners less alike."""

PART = 2**16
"""Samples whose diagonal is computed at a time."""


FEW = 3
"""Columns up to which opening boxes costs less than refusing candidates, at any scale."""


def by_kernel(values: Tensor, own: bool, kernel: Kernel) -> Partners:
    """Partners in proportion to a kernel, drawn as its form and the values allow.

    Args:
        values: (N,) or (N, c).
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        kernel: A positive definite one, whose diagonal bounds it.

    Raises:
        ValueError: For a kernel that is not positive definite.
    """
    if not kernel.positive_definite:
        raise ValueError(
            f"conditional_pair needs a positive definite kernel, and {kernel!r} is none:"
            " nearest=k takes the k nearest samples"
        )
    if values.is_floating_point():
        columns = as_vectors(values).shape[1]
        if hasattr(kernel, "radial") and columns <= FEW:
            return (FallingOnLine if columns == 1 else FallingInSpace)(values, own, kernel.radial)
    elif values.ndim == 1 and getattr(kernel, "one_hot", False):
        return ByClassKernel(values, own, kernel)
    return ByKernel(values, own, kernel)


class ByKernel:
    """A partner with a probability proportional to a kernel's value, negative ones counting as 0.

    Exact, and without a row of the N x N kernel matrix as a rule: of candidates that are drawn at
    random, each is accepted with the probability ``k(a, b) / sqrt(k(a, a) max k(b, b))``, and one of
    those accepted is taken.  Anchors without any look at four times as many, and at last at all.

    Args:
        values: (N,) or (N, c).
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        kernel: A positive definite one, whose diagonal bounds it.

    """

    def __init__(self, values: Tensor, own: bool, kernel: Kernel) -> None:
        self.values = values
        self.own = own
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
            # The first accepted from a place of each anchor's own on: from the same place, anchors
            # that are alike would have the same partner.
            shift = torch.from_numpy(draws.integers(candidates, size=(len(pending), 1)))
            turn = (torch.arange(candidates) - shift) % candidates
            turn = turn.masked_fill(chance * bound[:, None] >= weights, candidates)
            soonest, which = turn.min(1)
            found = soonest < candidates
            partners[pending[found]] = drawn[which[found]]
            pending, candidates = pending[~found], 4 * candidates
        if len(pending):
            for some in pending.split(max(1, 2**22 // size)):
                partners[some] = self._draw_of_all(anchors[some], draws)
        return partners

    def _draw_of_all(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        total = self._weights(anchors, torch.arange(len(self.values))).double().cumsum(1)
        level = torch.from_numpy(draws.random((len(anchors), 1))) * total[:, -1:]
        which = torch.searchsorted(total, level, right=True).flatten()
        return torch.where(total[:, -1] > 0, which.clamp_max(total.shape[1] - 1), anchors)

    def _weights(self, anchors: Tensor, others: Tensor) -> Tensor:
        """(n, m) the kernel where it is above 0, and an anchor itself only where it may be chosen."""
        weights = self.kernel(self.values[anchors], self.values[others]).float().clamp_min(0)
        return weights if self.own else weights.masked_fill(anchors[:, None] == others, 0)

    def _diagonal(self, values: Tensor) -> Tensor:
        """(n,) what the kernel gives each value with itself."""
        return diagonal_of(self.kernel, values).float()

"""Drawing a partner for each anchor from P(.|z), the samples that share its condition or are like it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.numerics import as_vectors
from ccl_plugins.protocols import Kernel
from ccl_plugins.samplers.groups import Groups

TOGETHER = 64
"""Anchors that choose among the same candidates; fewer cost less, until calls do."""

CANDIDATES = 8
"""How many candidates there are at first for each of these; more make their partners less alike."""

DIAGONAL = 128
"""Samples whose kernel is computed at a time where its diagonal is wanted."""


class Partners(Protocol):
    """P(.|z)."""

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) a partner for each of (n,) anchors."""
        ...


class OfGroup:
    """A partner of the same class, each with the same probability.

    Args:
        values: (N,) or (N, L) class ids.
        own: Whether a sample may be its own partner; one that is alone always is.
    """

    def __init__(self, values: Tensor, own: bool) -> None:
        self.groups = Groups(values)
        self.own = own

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        groups = self.groups
        group = groups.ids[anchors]
        first, count = groups.first[group], groups.count[group]
        # From the anchor on, round the group: a distance of 0 is the anchor itself.
        least = 0 if self.own else (count > 1).long().numpy()
        away = torch.from_numpy(draws.integers(least, count.numpy()))
        return groups.order[first + (groups.place[anchors] - first + away) % count]


class Nearest:
    """One of the k samples that are nearest by Euclidean distance, each with the same probability.

    Args:
        values: (N,) or (N, c) numbers.
        own: Whether a sample is one of its k nearest.
        k: 1 or more, of the samples that there are.
    """

    def __init__(self, values: Tensor, own: bool, k: int) -> None:
        most = len(values) - (not own)
        if not 1 <= k <= most:
            raise ValueError(f"nearest must be 1 to {most}, the samples that there are, not {k!r}")
        from sklearn.neighbors import NearestNeighbors

        self.values = as_vectors(values).float().numpy()
        self.own = own
        self.k = k
        self._tree: Any = NearestNeighbors(n_neighbors=k + (not own)).fit(self.values)
        # Found when first asked for: all at once would keep a run from beginning for minutes.
        self._near = np.empty((len(values), k), dtype=np.int64)
        self._found = np.zeros(len(values), dtype=bool)

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        asked = anchors.numpy()
        self._find(asked[~self._found[asked]])
        chosen = draws.integers(self.k, size=len(asked))
        return torch.from_numpy(self._near[asked, chosen])

    def _find(self, samples: np.ndarray) -> None:
        if not len(samples):
            return
        near = self._tree.kneighbors(self.values[samples], return_distance=False)
        if not self.own:
            # Among more than k equal values a sample may itself be missing; then the farthest goes.
            mine = near == samples[:, None]
            mine[:, -1] |= ~mine.any(1)
            near = near[~mine].reshape(len(near), self.k)
        self._near[samples], self._found[samples] = near, True


class ByKernel:
    """A partner with a probability proportional to a kernel's value, negative ones counting as 0.

    Exact, and without a row of the N x N kernel matrix as a rule: of candidates that are drawn at
    random, each is accepted with the probability ``k(a, b) / sqrt(k(a, a) max k(b, b))``, and one of
    those accepted is taken.  Anchors without any look at four times as many, and at last at all.

    Args:
        values: (N,) or (N, c).
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        kernel: A positive definite one, whose diagonal bounds it.

    Raises:
        ValueError: For a kernel that is not positive definite.
    """

    def __init__(self, values: Tensor, own: bool, kernel: Kernel) -> None:
        if not kernel.positive_definite:
            raise ValueError(
                f"conditional_pair needs a positive definite kernel, and {kernel!r} is none:"
                " nearest=k takes the k nearest samples"
            )
        self.values = values
        self.own = own
        self.kernel = kernel
        self._largest = max(float(self._diagonal(part).max()) for part in values.split(DIAGONAL))

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        return torch.cat([self._draw_together(some, draws) for some in anchors.split(TOGETHER)])

    def _draw_together(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        partners, pending = anchors.clone(), torch.arange(len(anchors))
        size, candidates = len(self.values), CANDIDATES * len(anchors)
        while len(pending) and candidates < size:
            drawn = torch.from_numpy(draws.integers(size, size=candidates))
            weights = self._weights(anchors[pending], drawn)
            bound = (self._own_weight(anchors[pending]) * self._largest).sqrt()
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

    def _own_weight(self, samples: Tensor) -> Tensor:
        parts = [self._diagonal(self.values[some]) for some in samples.split(DIAGONAL)]
        return torch.cat(parts)

    def _diagonal(self, values: Tensor) -> Tensor:
        return self.kernel(values, values).diagonal().float()

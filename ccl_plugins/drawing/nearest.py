"""Partners among the k nearest samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import number, whole
from ccl_plugins.drawing.partners import Partners
from ccl_plugins.numerics.condition_values import as_vectors

FEW = 15
"""The most columns for which a tree finds neighbors faster than a comparison with all samples."""


def among_nearest(values: Tensor, own_pair: bool, k: int) -> Partners:
    """Partners among the k nearest samples by Euclidean distance, each with the same probability.

    With ``own_pair`` a sample is one of its k nearest.

    Raises:
        TypeError: For a ``k`` that is not a whole number.
        ValueError: For a ``k`` out of range.
    """
    most = len(values) - (not own_pair)
    if not 1 <= number("nearest", k) <= most:
        raise ValueError(f"nearest must be 1 to {most}, the number of candidates, not {k!r}")
    whole("nearest", k, 1)
    vectors = as_vectors(values).float()
    return (NearestOnLine if vectors.shape[1] == 1 else Nearest)(vectors, own_pair, k)


class NearestOnLine:
    """The k nearest samples by one number.

    They are neighbors in the order of the (N, 1) values; bisection finds the first. Of two samples
    at equal distance, the first in that order counts as nearer.
    """

    def __init__(self, values: Tensor, own_pair: bool, k: int) -> None:
        self.own_pair = own_pair
        self.k = k
        # Stable: all processes must agree on the order of equal values.
        ordered, self._order = values.flatten().sort(stable=True)
        self._values = ordered.numpy()
        self._place = torch.empty_like(self._order)
        self._place[self._order] = torch.arange(len(self._order))

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        place = self._place[anchors].numpy()
        first = self._first(place, self.k - self.own_pair)
        chosen = first + draws.integers(self.k, size=len(place))
        if not self.own_pair:
            chosen += chosen >= place
        return self._order[torch.from_numpy(chosen)]

    def _first(self, place: np.ndarray, others: int) -> np.ndarray:
        """The first place of the window of a sample and its nearest ``others``."""
        values, size = self._values, len(self._values)
        low = np.maximum(place - others, 0)
        high = np.minimum(place, size - 1 - others)
        while (low < high).any():
            middle = (low + high) // 2
            # The first sample of this window and the one after its last: the nearer one stays.
            left = values[place] - values[middle]
            right = values[np.minimum(middle + others + 1, size - 1)] - values[place]
            farther = (left > right) & (low < high)
            low, high = np.where(farther, middle + 1, low), np.where(farther, high, middle)
        return low


class Nearest:
    """The k nearest samples by several numbers, which are cached."""

    def __init__(self, values: Tensor, own_pair: bool, k: int) -> None:
        self.values = values.numpy()
        self.own_pair = own_pair
        self.k = k
        self._search = _search(self.values, k + (not own_pair))
        # Found when first needed: finding all at once would delay the first batch by minutes.
        self._near = np.empty((len(values), k), dtype=np.int64)
        self._found = np.zeros(len(values), dtype=bool)

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        samples = anchors.numpy()
        self._find(samples[~self._found[samples]])
        chosen = draws.integers(self.k, size=len(samples))
        return torch.from_numpy(self._near[samples, chosen])

    def _find(self, samples: np.ndarray) -> None:
        if not len(samples):
            return
        near = self._search(self.values[samples])
        if not self.own_pair:
            # Among more than k equal values the sample may be missing; then the farthest one goes.
            is_self = near == samples[:, None]
            is_self[:, -1] |= ~is_self.any(1)
            near = near[~is_self].reshape(len(near), self.k)
        self._near[samples], self._found[samples] = near, True


def _search(values: np.ndarray, k: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function from (n, c) points to their (n, k) nearest samples, the nearest first."""
    if values.shape[1] <= FEW:
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # it ships no types

        # Built in a third of the time that a balanced tree takes.
        tree = cKDTree(values, leafsize=32, compact_nodes=False, balanced_tree=False)
        ranks = range(1, k + 1)
        return partial(_query, tree, ranks)
    from sklearn.neighbors import NearestNeighbors

    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(values)
    return partial(brute.kneighbors, return_distance=False)


def _query(tree: Any, ranks: range, points: np.ndarray) -> np.ndarray:
    found: np.ndarray = tree.query(points, k=ranks)[1]
    return found

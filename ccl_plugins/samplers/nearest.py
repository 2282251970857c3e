"""Partners among the k nearest samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.samplers.line import NearestOnLine
from ccl_plugins.samplers.partners import Partners

FEW = 15
"""Columns up to which a tree finds neighbors sooner than looking at all samples does."""


def among_nearest(values: Tensor, own: bool, k: int) -> Partners:
    """Partners among the k nearest by Euclidean distance.

    Args:
        values: (N,) or (N, c) numbers.
        own: Whether a sample is one of its k nearest.
        k: 1 or more, of the samples that there are.

    Raises:
        ValueError: For ``k`` out of range.
    """
    most = len(values) - (not own)
    if not 1 <= k <= most:
        raise ValueError(f"nearest must be 1 to {most}, the samples that there are, not {k!r}")
    vectors = as_vectors(values).float()
    return (NearestOnLine if vectors.shape[1] == 1 else Nearest)(vectors, own, k)


class Nearest:
    """One of the k samples that are nearest by Euclidean distance, each with the same probability.

    Args:
        values: (N, c) numbers.
        own: Whether a sample is one of its k nearest.
        k: 1 or more, of the samples that there are.
    """

    def __init__(self, values: Tensor, own: bool, k: int) -> None:
        self.values = values.numpy()
        self.own = own
        self.k = k
        self._search = _search(self.values, k + (not own))
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
        near = self._search(self.values[samples])
        if not self.own:
            # Among more than k equal values a sample may itself be missing; then the farthest goes.
            mine = near == samples[:, None]
            mine[:, -1] |= ~mine.any(1)
            near = near[~mine].reshape(len(near), self.k)
        self._near[samples], self._found[samples] = near, True


def _search(values: np.ndarray, k: int) -> Callable[[np.ndarray], np.ndarray]:
    """What finds the (n, k) nearest of (n, c) points, the nearest first."""
    if values.shape[1] <= FEW:
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # it ships no types

        # Built in a third of the time that a balanced tree takes.
        tree = cKDTree(values, leafsize=32, compact_nodes=False, balanced_tree=False)
        ranks = range(1, k + 1)
        return lambda points: tree.query(points, k=ranks)[1]
    from sklearn.neighbors import NearestNeighbors

    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(values)
    return lambda points: brute.kneighbors(points, return_distance=False)

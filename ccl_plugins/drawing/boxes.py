"""Nested boxes around samples, which bound the weight of many samples at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

CHILDREN = 8
"""The number of boxes in a box; the smallest boxes have this number of samples."""


class Cover(NamedTuple):
    """For each of n anchors, boxes that together hold every sample with weight, each sample once.

    Args:
        start: (n + 1,) the first box of each anchor; the last entry is the total number b.
        first: (b,) the place of the first sample in each box.
        size: (b,) the number of samples in it.
        mass: (b,) an upper bound on the sum of their weights, above 0.
    """

    start: np.ndarray
    first: np.ndarray
    size: np.ndarray
    mass: np.ndarray


class Boxes:
    """Samples in the order of a k-d tree, where neighbors are together, and boxes around runs of them.

    A box of level l holds the samples at ``CHILDREN**l`` successive places and bounds each of their
    numbers from below and above.  The boxes of level 0 are the samples; the highest level has one box.

    Args:
        values: (N, c) numbers, of fewer than 2**31 samples.

    Attributes:
        values: (N, c) float32 in the tree's order.
        order: (N,) the samples in that order.
        place: (N,) the position of each sample in `order`.
    """

    def __init__(self, values: Tensor) -> None:
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # it ships no types

        points = values.float().numpy()
        # Built in a third of the time that a balanced tree takes.
        tree = cKDTree(points, leafsize=CHILDREN, compact_nodes=False, balanced_tree=False)
        self.order = torch.from_numpy(tree.indices.astype(np.int64))
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(len(self.order))
        self.values = points[tree.indices]
        lows: list[np.ndarray] = []
        highs: list[np.ndarray] = []
        low = high = self.values
        while not lows or len(low) > 1:
            lows.append(_siblings(low))
            highs.append(_siblings(high))
            low, high = lows[-1].min(1), highs[-1].max(1)
        # (s, CHILDREN, c): siblings side by side, those of level l from _begin[l] on.
        self._low, self._high = np.concatenate(lows), np.concatenate(highs)
        self._begin = np.cumsum([0, *map(len, lows)])
        self._width = CHILDREN ** np.arange(len(lows) + 1)

    def cover(
        self,
        anchors: np.ndarray,
        own_pair: bool,
        weight: Callable[[np.ndarray], np.ndarray],
        share: float,
    ) -> Cover:
        """Boxes around anchors, which are small if they may hold much weight.

        Starting from the box of all samples, every box that holds more than ``share`` of the summed bounds
        of its anchor is replaced by its children, until only single samples hold more.

        Args:
            anchors: (n,) places.
            own_pair: Whether an anchor itself has weight.
            weight: A function from squared distances to weights that never increases.
            share: Above 0; a smaller one means more boxes and closer bounds.
        """
        # Of the boxes of all anchors: the anchor, the level, the number in the level, and the bound.
        anchor = np.arange(len(anchors), dtype=np.int32)
        level = np.full(len(anchors), len(self._width) - 1, np.int8)
        box = np.zeros(len(anchors), np.int32)
        mass = np.zeros(len(anchors))
        is_large = np.ones(len(anchors), dtype=bool)
        values = self.values.take(anchors, 0)
        while is_large.any():
            large, small = np.flatnonzero(is_large), np.flatnonzero(~is_large)
            of, inner, parent = anchor.take(large), level.take(large) - 1, box.take(large)
            siblings = self._begin.take(inner) + parent
            bound = weight(self._squared_distance(values.take(of, 0), siblings)).ravel()
            of, inner = of.repeat(CHILDREN), inner.repeat(CHILDREN)
            child = (parent[:, None] * CHILDREN + np.arange(CHILDREN, dtype=np.int32)).ravel()
            child_mass = bound * self._count(inner, child)
            if not own_pair:
                child_mass[(inner == 0) & (child == anchors.take(of))] = 0
            some = np.flatnonzero(child_mass)
            anchor, level, box, mass = (
                np.concatenate([old.take(small), new.take(some)])
                for old, new in ((anchor, of), (level, inner), (box, child), (mass, child_mass))
            )
            limit = share * np.bincount(anchor, mass)
            is_large = (mass > limit.take(anchor)) & (level > 0)
        # Small integers are sorted several times as fast.
        order = anchor.astype(np.min_scalar_type(len(anchors))).argsort(kind="stable")
        start = np.append(0, np.bincount(anchor, minlength=len(anchors)).cumsum())
        level, box = level.take(order), box.take(order)
        return Cover(start, box * self._width[level], self._count(level, box), mass.take(order))

    def _squared_distance(self, points: np.ndarray, siblings: np.ndarray) -> np.ndarray:
        """(p, `CHILDREN`) from points (p, c) to the nearest points of p rows of siblings."""
        points = points[:, None]
        away = np.maximum(
            self._low.take(siblings, 0) - points, points - self._high.take(siblings, 0)
        )
        np.maximum(away, 0, out=away)
        return np.einsum("pkc,pkc->pk", away, away)

    def _count(self, level: np.ndarray, box: np.ndarray) -> np.ndarray:
        """The number of samples in boxes; 0 in boxes that only fill up the last row of siblings."""
        width = self._width.take(level)
        return (len(self.values) - box * width).clip(0, width)


def _siblings(corners: np.ndarray) -> np.ndarray:
    """(boxes, c) as (parents, `CHILDREN`, c), filled up with the last box."""
    filled = np.pad(corners, [(0, -len(corners) % CHILDREN), (0, 0)], mode="edge")
    return filled.reshape(-1, CHILDREN, corners.shape[1])

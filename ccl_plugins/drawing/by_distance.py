"""Partners by a kernel of the distance between a few numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.drawing.boxes import Boxes, Cover
from ccl_plugins.numerics.condition_values import as_vectors

SHARE = 1 / 12
"""Boxes with more than this share of an anchor's summed bounds are opened at first; see `Boxes.cover`."""

SMALLER = 1 / 8
"""The factor of the share for anchors whose candidates are all rejected."""

CANDIDATES = (6, 24, 96)
"""The number of an anchor's candidates in each round; more candidates are cheaper than another round."""

TOGETHER = 2**14
"""The most anchors at a time, divided by the share: a bound on memory."""


class ByDistance:
    """A partner with a probability proportional to a kernel of the distance.

    Exact at any scale, up to the rounding of float32, by rejection: boxes around the anchor hold all
    samples with weight.  A box is proposed in proportion to an upper bound on its summed weight, and in it
    a sample uniformly, which is accepted with the probability ``weight * size / bound``. Loose
    bounds cost candidates but do not change probabilities: few boxes are opened at first, and more
    for anchors whose candidates are all rejected.

    Args:
        radial: The kernel by squared distance; it never increases.
    """

    def __init__(self, values: Tensor, own_pair: bool, radial: Callable[[Tensor], Tensor]) -> None:
        self.boxes = Boxes(as_vectors(values))
        self.own_pair = own_pair
        self._radial = radial

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        places = self.boxes.place[anchors].numpy()
        partners = np.full(len(places), -1)
        share, least = SHARE, SMALLER**2 / len(self.boxes.values)
        # Below the least share all boxes that matter are open, and only rounding rejects candidates.
        while len(pending := np.flatnonzero(partners < 0)) and share > least:
            together = max(1, int(TOGETHER * share))
            for some in np.split(pending, range(together, len(pending), together)):
                partners[some] = self._draw(places[some], share, draws)
            share *= SMALLER
        return self.boxes.order[torch.from_numpy(np.where(partners < 0, places, partners))]

    def _draw(self, anchors: np.ndarray, share: float, draws: np.random.Generator) -> np.ndarray:
        """(n,) places of partners of anchors at places (n,); -1 if all candidates are rejected."""
        cover = self.boxes.cover(anchors, self.own_pair, self._weight, share)
        ends = _ends(cover)
        partners = np.where(np.diff(cover.start) > 0, -1, anchors)
        for candidates in CANDIDATES:
            pending = np.flatnonzero(partners < 0)
            point = pending[:, None] + draws.random((len(pending), candidates))
            box = np.minimum(ends.searchsorted(point, "right"), cover.start[pending + 1, None] - 1)
            size = cover.size[box]
            place = cover.first[box] + (draws.random(box.shape) * size).astype(np.int64)
            weight = self._weigh(anchors[pending], place)
            accepted = draws.random(box.shape) * cover.mass[box] < weight * size
            row, first = np.arange(len(pending)), accepted.argmax(1)
            partners[pending] = np.where(accepted[row, first], place[row, first], -1)
        return partners

    def _weigh(self, anchors: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(p, t) weights of the samples at places (p, t) for the anchors at places (p,)."""
        values = self.boxes.values
        gap = values.take(others, 0)
        gap -= values.take(anchors, 0)[:, None]
        weight = self._weight(np.einsum("ptc,ptc->pt", gap, gap))
        return weight if self.own_pair else np.where(others == anchors[:, None], 0, weight)

    def _weight(self, squared_distance: np.ndarray) -> np.ndarray:
        weight: np.ndarray = self._radial(torch.from_numpy(squared_distance)).numpy()
        return weight


def _ends(cover: Cover) -> np.ndarray:
    """(b,) the ends of boxes on a line; the boxes of anchor i fill i to i + 1 in proportion to their mass.

    Each mass is divided by its anchor's total before the sum, in which small totals would be lost beside
    large ones.
    """
    anchor = np.arange(len(cover.start) - 1).repeat(np.diff(cover.start))
    total = np.bincount(anchor, cover.mass)
    sums = np.append(0, (cover.mass / total[anchor]).cumsum())
    return anchor + (sums[1:] - sums[cover.start[anchor]]).clip(max=1)

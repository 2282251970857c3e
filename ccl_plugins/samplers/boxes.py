"""Samples in boxes within boxes: what is near in a few columns is found without looking at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.samplers.shells import Shells

CHILDREN = 8
"""Boxes in a box; in the smallest, samples."""

LOOSE = 8.0
"""How many times as much as its farthest corner a box's nearest may weigh without being opened."""

NOTHING = 1e-8
"""What all samples may weigh together, of all partners, that are left out: less than the rounding of
float32, in which kernels are computed."""

TOGETHER = 4096
"""Boxes that are covered at a time; more would not fit into fast memory."""


class Boxes:
    """Samples in an order in which neighbors stand together, and boxes around runs of them.

    Level 0 are the samples themselves; a box of level l holds `CHILDREN` of the level below, and so
    ``CHILDREN**l`` samples; in the last level there is one.

    Args:
        values: (N, c) numbers.

    Attributes:
        values: (N, c) float32 in order.
        order: (N,) the samples in that order.
        place: (N,) where in `order` each sample stands.
        centers: Per level below the last (boxes, c), a multiple of `CHILDREN` of them: the last one is
            repeated.
        halves: Likewise half the boxes' widths.
    """

    def __init__(self, values: Tensor) -> None:
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # it ships no types

        points = values.float().numpy()
        tree = cKDTree(points, leafsize=CHILDREN, compact_nodes=False, balanced_tree=False)
        self.order = torch.from_numpy(tree.indices.astype(np.int64))
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(len(self.order))
        self.values = points[tree.indices]
        self.centers: list[np.ndarray] = []
        self.halves: list[np.ndarray] = []
        low = high = self.values
        while not self.centers or len(low) > 1:
            low, high = (
                np.pad(side, [(0, -len(side) % CHILDREN), (0, 0)], mode="edge")
                for side in (low, high)
            )
            self.centers.append((low + high) / 2)
            self.halves.append((high - low) / 2)
            low, high = _families(low).min(1), _families(high).max(1)

    def __len__(self) -> int:
        """N."""
        return len(self.values)

    @property
    def levels(self) -> int:
        """How many levels there are below the last."""
        return len(self.centers)

    def number(self, level: int) -> int:
        """Boxes of a level that hold samples."""
        return -(-len(self) // CHILDREN**level)

    def samples(self, level: int, box: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First sample and number of samples (b,) of boxes of a level; 0 for those past the last."""
        first = box * CHILDREN**level
        return first, (len(self) - first).clip(0, CHILDREN**level)

    def around(self, level: int, box: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centers and half widths (b, c) of boxes of a level."""
        return self.centers[level].take(box, 0), self.halves[level].take(box, 0)

    def nearest(
        self, level: int, parent: np.ndarray, center: np.ndarray, half: np.ndarray
    ) -> np.ndarray:
        """Squared distances (b, `CHILDREN`) between other boxes (b, c) and each child's nearest points."""
        away = np.abs(_families(self.centers[level]).take(parent, 0) - center[:, None])
        away -= _families(self.halves[level]).take(parent, 0)
        away -= half[:, None]
        np.maximum(away, 0, out=away)
        return np.einsum("bkc,bkc->bk", away, away)

    def farthest(
        self, level: int, box: np.ndarray, center: np.ndarray, half: np.ndarray
    ) -> np.ndarray:
        """Squared distances (b,) between other boxes (b, c) and the farthest corners of one each."""
        away = np.abs(self.centers[level].take(box, 0) - center)
        away += self.halves[level].take(box, 0)
        away += half
        return np.einsum("bc,bc->b", away, away)


def _families(corners: np.ndarray) -> np.ndarray:
    """(boxes, c) as (parents, `CHILDREN`, c)."""
    return corners.reshape(-1, CHILDREN, corners.shape[1])


class Cover:
    """Boxes around boxes, by what no sample in them weighs more than for any sample in the other.

    Which boxes are opened into smaller ones decides how close the bounds are, and nothing else: all
    samples are covered once, but for those of no weight (`NOTHING`).

    Args:
        boxes: Of all samples.
        own: Whether a sample counts among its own partners.
        fall: What a sample weighs by its squared distance, nowhere rising.
        worth: How many times what all partners weigh, by a guess, a box may weigh without being
            opened: the larger, the fewer boxes and the more candidates refused.
    """

    def __init__(
        self, boxes: Boxes, own: bool, fall: Callable[[np.ndarray], np.ndarray], worth: float
    ) -> None:
        self.boxes = boxes
        self.own = own
        self.fall = fall
        self.worth = worth

    def around(self, level: int, anchors: np.ndarray) -> Shells:
        """The boxes that cover all samples, for boxes (n,) of a level, of which samples are level 0."""
        covers = [
            self._together(level, some)
            for some in np.split(anchors, range(TOGETHER, len(anchors), TOGETHER))
        ]
        counts, *parts = (np.concatenate(column) for column in zip(*covers, strict=True))
        return Shells(np.append(0, counts.cumsum()), *parts)

    def weigh(self, place: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(p, t) what samples at places (p, t) weigh for those at (p,)."""
        gap = self.boxes.values.take(others, 0)
        gap -= self.boxes.values.take(place, 0)[:, None]
        weight = self.fall(np.einsum("ptc,ptc->pt", gap, gap))
        return weight if self.own else np.where(others == place[:, None], 0, weight)

    def _together(self, level: int, anchors: np.ndarray) -> tuple[np.ndarray, ...]:
        covers = zip(*self._cover(level, anchors), strict=True)
        anchor, *parts = (np.concatenate(column) for column in covers)
        # Small integers are sorted several times as fast.
        order = anchor.astype(np.min_scalar_type(len(anchors))).argsort(kind="stable")
        return np.bincount(anchor, minlength=len(anchors)), *(part[order] for part in parts)

    def _cover(self, of: int, anchors: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Anchor, first sample, count and bound of the boxes that stay closed, level by level."""
        boxes = self.boxes
        center, half = boxes.around(of, anchors)
        least = self._least(of, anchors, center, half)
        likely, behind = least, np.zeros_like(least)
        anchor = np.arange(len(anchors))
        parent = np.zeros_like(anchor)
        # Boxes much smaller than the anchors' own are bounded no closer.
        last = max(of - 1, 0)
        for level in reversed(range(last, boxes.levels)):
            where = center.take(anchor, 0), half.take(anchor, 0)
            bound = self.fall(boxes.nearest(level, parent, *where))
            some = np.flatnonzero(bound > NOTHING / len(boxes) * least.take(anchor)[:, None])
            bound, row = bound.take(some), some // CHILDREN
            anchor, box = anchor.take(row), parent.take(row) * CHILDREN + some % CHILDREN
            low, count = boxes.samples(level, box)
            if not (self.own or of or level):
                count[box == anchors.take(anchor)] = 0
            if level == last:
                yield anchor, low, count, bound
                return
            corner = self.fall(
                boxes.farthest(level, box, center.take(anchor, 0), half.take(anchor, 0))
            )
            others = count - (not self.own)
            least = np.maximum(least, np.bincount(anchor, others * corner, len(anchors)))
            # A guess of what all partners weigh, which the least is far below for wide boxes.
            weight = count * np.sqrt(bound * corner)
            likely = np.maximum(likely, behind + np.bincount(anchor, weight, len(anchors)))
            is_worth = count * bound > self.worth * likely.take(anchor)
            opened = np.flatnonzero(is_worth & (bound > LOOSE * corner))
            count[opened] = weight[opened] = 0
            behind += np.bincount(anchor, weight, len(anchors))
            closed = np.flatnonzero(count)
            yield tuple(part.take(closed) for part in (anchor, low, count, bound))
            anchor, parent = anchor.take(opened), box.take(opened)

    def _least(
        self, of: int, anchors: np.ndarray, center: np.ndarray, half: np.ndarray
    ) -> np.ndarray:
        """(n,) what the partners weigh together at least, by the boxes that the anchors are in."""
        boxes = self.boxes
        if of:
            least = np.full(len(anchors), self.own * self.fall(np.zeros(1))[0], np.float64)
        else:
            sibling = anchors[:, None] // CHILDREN * CHILDREN + np.arange(CHILDREN)
            weight = self.weigh(anchors, sibling.clip(max=len(boxes) - 1))
            least = np.where(sibling < len(boxes), weight, 0).sum(1, dtype=np.float64)
        for level in range(max(of, 1), boxes.levels):
            box = anchors // CHILDREN ** (level - of)
            others = boxes.samples(level, box)[1] - (not self.own)
            far = self.fall(boxes.farthest(level, box, center, half))
            least = np.maximum(least, others * far)
        return least

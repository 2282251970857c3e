"""Partners by a few numbers: what is near is found in boxes within boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.samplers.shells import Shells, draw_within

CHILDREN = 8
"""Boxes in a box; in the smallest, samples."""

LOOSE = 8.0
"""How many times as much as its farthest corner a box's nearest may weigh without being opened."""

WORTH = 64.0
"""How many times what all partners weigh at least a box must weigh to be worth opening: looking into it
costs as much as that many candidates refused."""

ROUNDS = 7
"""Rounds of proposals before an anchor looks at all samples: some ten thousand."""


WIDE = 1 / 20
"""What samples weigh for each other on average, of the most, where candidates drawn of all cost less."""

AT_FIRST = 3
"""Rounds of proposals of these."""

SOME = 4096
"""Pairs by which that is judged."""


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
        centers: Per level below the last (boxes of the level above, `CHILDREN`, c); where there are
            fewer children the last one is repeated.
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
            low, high = _families(low), _families(high)
            self.centers.append((low + high) / 2)
            self.halves.append((high - low) / 2)
            low, high = low.min(1), high.max(1)

    def __len__(self) -> int:
        """N."""
        return len(self.values)

    @property
    def levels(self) -> int:
        """How many levels there are below the last."""
        return len(self.centers)

    def children(self, level: int, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First sample and number of samples (b, `CHILDREN`) of the children, of a level, of boxes (b,)."""
        size = CHILDREN**level
        first = (parent[:, None] * CHILDREN + np.arange(CHILDREN)) * size
        return first, (len(self) - first).clip(0, size)

    def distances(
        self, level: int, parent: np.ndarray, point: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances (b, `CHILDREN`) from points (b, c) to each child's nearest and farthest."""
        away = np.abs(self.centers[level].take(parent, 0) - point[:, None])
        half = self.halves[level].take(parent, 0)
        near = np.maximum(away - half, 0)
        away += half
        return np.einsum("bkc,bkc->bk", near, near), np.einsum("bkc,bkc->bk", away, away)


def _families(corners: np.ndarray) -> np.ndarray:
    """(boxes, c) as (parents, `CHILDREN`, c), the last box repeated."""
    lacking = -len(corners) % CHILDREN
    return np.pad(corners, [(0, lacking), (0, 0)], mode="edge").reshape(
        -1, CHILDREN, corners.shape[1]
    )


class FallingInSpace:
    """A partner with a probability proportional to a kernel of the distance, of values in a few columns.

    Exact, whatever the values and the scale.  No sample in a box weighs more than a point at the box's
    smallest distance would; around each anchor all samples are covered by boxes, small ones near it,
    candidates are drawn in proportion to that bound and accepted by what they weigh (`draw_within`).
    Which boxes are opened into smaller ones decides how many candidates are refused, and nothing else;
    an anchor whose candidates are refused ten thousand times looks at all samples.  Under a kernel that
    likens most samples to each other, a first few candidates are drawn of all, without a box.

    Args:
        values: (N, c).
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        radial: The kernel by squared distance, nowhere rising.
    """

    def __init__(self, values: Tensor, own: bool, radial: Callable[[Tensor], Tensor]) -> None:
        self.boxes = Boxes(values)
        self.own = own
        self.radial = radial
        self._most = float(self._fall(np.zeros(1))[0])
        self._is_wide = self._share() > WIDE

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        place = self.boxes.place[anchors].numpy()
        found, left = np.full(len(place), -1), np.arange(len(place))
        if self._is_wide:
            found, left = self._draw_within(self._everywhere(len(place)), place, draws, AT_FIRST)
        if len(left):
            near = self._around(place[left])
            found[left], given_up = self._draw_within(near, place[left], draws, ROUNDS)
            for row in left[given_up]:
                found[row] = self._draw_of_all(place[row], draws)
        return self.boxes.order[torch.from_numpy(np.where(found < 0, place, found))]

    def _draw_within(
        self, shells: Shells, place: np.ndarray, draws: np.random.Generator, rounds: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return draw_within(
            shells, lambda rows, places: self._weigh(place[rows], places), draws, rounds
        )

    def _share(self) -> float:
        """What samples weigh for each other on average, of the most there is."""
        pairs = np.random.default_rng(0).integers(len(self.boxes), size=(2, SOME))
        gap = self.boxes.values[pairs[0]] - self.boxes.values[pairs[1]]
        return float(self._fall(np.einsum("pc,pc->p", gap, gap)).mean()) / self._most

    def _everywhere(self, n: int) -> Shells:
        """All samples as one box, for each of n anchors."""
        whole = np.full((n, 1), len(self.boxes))
        return Shells(np.zeros_like(whole), whole, np.full((n, 1), self._most, np.float32))

    def _weigh(self, place: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(p, t) what samples at places (p, t) weigh for anchors at (p,)."""
        gap = self.boxes.values[others] - self.boxes.values[place][:, None]
        weight = self._fall(np.einsum("ptc,ptc->pt", gap, gap))
        return weight if self.own else np.where(others == place[:, None], 0, weight)

    def _draw_of_all(self, place: int, draws: np.random.Generator) -> int:
        weight = self._weigh(np.array([place]), np.arange(len(self.boxes))[None])[0]
        total = weight.cumsum(dtype=np.float64)
        level = draws.random() * total[-1]
        if total[-1] == 0:
            return place
        return min(int(np.searchsorted(total, level, side="right")), len(total) - 1)

    def _fall(self, square: np.ndarray) -> np.ndarray:
        weight: np.ndarray = self.radial(torch.from_numpy(square)).numpy()
        return weight

    def _around(self, place: np.ndarray) -> Shells:
        """Boxes that cover all samples but those of no weight, for anchors at places (n,)."""
        covers = list(self._cover(place))
        anchor, low, count, bound = (np.concatenate(column) for column in zip(*covers, strict=True))
        sort = anchor.argsort(kind="stable")
        anchor = anchor[sort]
        slot = np.arange(len(anchor)) - np.searchsorted(anchor, anchor)
        shape = len(place), int(slot.max(initial=0)) + 1
        cells = anchor * shape[1] + slot
        shells = Shells(*(np.zeros(shape, part.dtype) for part in (low, count, bound)))
        for whole, part in ((shells.low, low), (shells.count, count), (shells.bound, bound)):
            whole.ravel()[cells] = part[sort]
        return shells

    def _cover(self, place: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Anchor, first sample, count and bound of the boxes that stay closed, level by level."""
        boxes, point = self.boxes, self.boxes.values[place]
        least = self._least(place, point)
        anchor = np.arange(len(place))
        box = np.zeros_like(anchor)
        for level in reversed(range(boxes.levels)):
            low, count = boxes.children(level, box)
            near, far = boxes.distances(level, box, point[anchor])
            bound, corner = self._fall(near), self._fall(far)
            least = np.maximum(least, np.bincount(anchor, (count * corner).sum(1), len(place)))
            opened = (bound > LOOSE * corner) & (count * bound > WORTH * least[anchor, None])
            if not level:
                opened[:] = False
                count[(low == place[anchor][:, None]) & (not self.own)] = 0
            row, child = np.nonzero(~opened & (count * bound > 0))
            yield anchor[row], low[row, child], count[row, child], bound[row, child]
            row, child = np.nonzero(opened)
            anchor, box = anchor[row], box[row] * CHILDREN + child

    def _least(self, place: np.ndarray, point: np.ndarray) -> np.ndarray:
        """(n,) what the partners weigh together at least, by the boxes that anchors are in."""
        boxes, least = self.boxes, np.zeros(len(place))
        row = np.arange(len(place))
        for level in range(1, boxes.levels):
            parent, child = np.divmod(place // CHILDREN**level, CHILDREN)
            count = boxes.children(level, parent)[1][row, child] - (not self.own)
            _, far = boxes.distances(level, parent, point)
            least = np.maximum(least, count * self._fall(far[row, child]))
        return least

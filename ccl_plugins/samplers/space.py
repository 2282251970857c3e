"""Partners by a few numbers: what is near is found in boxes within boxes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.samplers.boxes import CHILDREN, Boxes, Cover
from ccl_plugins.samplers.shells import Shells, draw_within, weights_of

KEPT = 2**23
"""Shells that are kept, at most: 240 MB, found in about two seconds."""

KEPT_WORTH, DRAWN_WORTH = (1.0, 4.0, 16.0), 32.0
"""What boxes are opened for: finding those that are kept costs once, and memory; others in every draw."""

KEPT_ROUNDS, DRAWN_ROUNDS = 3, 7
"""Rounds of proposals before an anchor goes on to boxes of its own, and from these to all samples; the
latter are some ten thousand."""

SOME = 1024
"""Anchors by which it is judged whether boxes that are kept serve."""

REFUSED = 1 / 4
"""How many of these may need boxes of their own."""


class FallingInSpace:
    """A partner with a probability proportional to a kernel of the distance, of values in a few columns.

    Exact, whatever the values and the scale.  No sample in a box weighs more than a point at the box's
    smallest distance would; around each anchor all samples are covered by boxes, small ones near it,
    candidates are drawn in proportion to that bound and accepted by what they weigh (`draw_within`).
    Neighbors share what is around their box, which is found once; where that is too loose, as it is for
    many samples under a narrow kernel, what is around each anchor is found in every draw.  An anchor
    whose candidates are refused ten thousand times looks at all samples.

    Args:
        values: (N, c).
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        radial: The kernel by squared distance, nowhere rising.
    """

    def __init__(self, values: Tensor, own: bool, radial: Callable[[Tensor], Tensor]) -> None:
        self.boxes = Boxes(values)
        self._cover = partial(Cover, self.boxes, own, partial(weights_of, radial))
        self._drawn = self._cover(DRAWN_WORTH)
        self._level, self._kept = self._keep()

    def _keep(self) -> tuple[int, Shells | None]:
        """What is around boxes of the level that serves best, if it does, and the level."""
        draws = np.random.default_rng(0)
        some = draws.integers(len(self.boxes), size=SOME)
        rows = np.arange(SOME)
        offers = [self._offer(worth, some) for worth in KEPT_WORTH]
        refused = [len(self._draw(shells, rows, some, draws, 1)[1]) for _, _, shells in offers]
        cover, level, shells = offers[int(np.argmin(refused))]
        if len(self._draw(shells, rows, some, draws, KEPT_ROUNDS)[1]) > REFUSED * SOME:
            return level, None
        return level, cover.around(level, np.arange(self.boxes.number(level)))

    def _offer(self, worth: float, some: np.ndarray) -> tuple[Cover, int, Shells]:
        """The smallest boxes for which all could be kept, and what is around those of some places."""
        cover = self._cover(worth)
        for level in range(self.boxes.levels):
            shells = cover.around(level, some // CHILDREN**level)
            if self.boxes.number(level) * len(shells.low) <= KEPT * len(some):
                break
        return cover, level, shells

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        place = self.boxes.place[anchors].numpy()
        found, left = np.full(len(place), -1), np.arange(len(place))
        if self._kept is not None:
            rows = place // CHILDREN**self._level
            found, left = self._draw(self._kept, rows, place, draws, KEPT_ROUNDS)
        if len(left):
            shells, rows = self._drawn.around(0, place[left]), np.arange(len(left))
            found[left], given_up = self._draw(shells, rows, place[left], draws, DRAWN_ROUNDS)
            for row in left[given_up]:
                found[row] = self._draw_of_all(place[row], draws)
        return self.boxes.order[torch.from_numpy(np.where(found < 0, place, found))]

    def _draw(
        self,
        shells: Shells,
        rows: np.ndarray,
        place: np.ndarray,
        draws: np.random.Generator,
        rounds: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`draw_within` of shells, for anchors at places."""

        def weigh(which: np.ndarray, others: np.ndarray) -> np.ndarray:
            return self._drawn.weigh(place[which], others)

        return draw_within(shells, rows, weigh, draws, rounds)

    def _draw_of_all(self, place: int, draws: np.random.Generator) -> int:
        weight = self._drawn.weigh(np.array([place]), np.arange(len(self.boxes))[None])[0]
        total = weight.cumsum(dtype=np.float64)
        level = draws.random() * total[-1]
        if total[-1] == 0:
            return place
        return min(int(np.searchsorted(total, level, side="right")), len(total) - 1)

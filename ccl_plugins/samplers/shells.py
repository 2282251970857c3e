"""Drawing in proportion to a weight that is bounded, shell by shell, without looking at all samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

TRIES = 6
"""Proposals for each anchor at first; a second round costs more than a few that are not needed."""

MORE = 4
"""How many times as many an anchor gets in every further round."""

MOST = 2**12
"""Proposals for an anchor in a round, at most."""


@dataclass(frozen=True)
class Shells:
    """Where anchors may find a partner: n rows of runs of samples that stand side by side.

    Args:
        first: (n + 1,) where the shells of each row begin among all; the last is their number s.
        low: (s,) the first sample of each shell.
        count: (s,) samples in it; 0 for none.
        bound: (s,) what no sample in it weighs more than.
    """

    first: np.ndarray
    low: np.ndarray
    count: np.ndarray
    bound: np.ndarray

    @cached_property
    def edges(self) -> np.ndarray:
        """(s + 1,) where shells begin and end on a line, each as long as its share of its row's mass.

        A row's total is divided out before the sum: beside rows of much mass, those of little would be
        lost to rounding.
        """
        row = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        mass = self.count * self.bound.astype(np.float64)
        total = np.bincount(row, mass, len(self.first) - 1)[row]
        share = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
        return np.concatenate([[0.0], share.cumsum()])


def draw_within(
    shells: Shells,
    rows: np.ndarray,
    weigh: Callable[[np.ndarray, np.ndarray], np.ndarray],
    draws: np.random.Generator,
    rounds: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """A place for each anchor, with a probability proportional to its weight.

    Exact rejection: a shell is proposed in proportion to ``count * bound`` and a place in it uniformly,
    which is each place in proportion to its bound; it is accepted with the probability
    ``weight / bound``.  So a place that is accepted has its weight's share, whatever the bounds are:
    tighter ones only save proposals.

    Args:
        shells: Of rows that anchors may share.
        rows: (n,) the row of each anchor.
        weigh: Weights (p, t) of places (p, t) for p of the anchors, which are given by number (p,).
        draws: Where random numbers come from.
        rounds: After how many rounds of proposals anchors are given up; None: never.

    Returns:
        places: (n,) int64; -1 for anchors without weight, and those given up.
        given_up: The numbers of the latter.
    """
    edges = shells.edges
    start, last = edges[shells.first[rows]], shells.first[rows + 1]
    length = edges[last] - start
    places = np.full(len(rows), -1)
    pending = np.flatnonzero(length > 0)
    tries, done = TRIES, 0
    while len(pending) and done != rounds:
        level = draws.random((len(pending), tries))
        level = start[pending, None] + level * length[pending, None]
        # A level may be rounded up to the end, and the last shell may be empty: that is refused.
        shell = np.minimum(edges[1:].searchsorted(level, "right"), last[pending, None] - 1)
        count, bound = shells.count.take(shell), shells.bound.take(shell)
        place = shells.low.take(shell) + (draws.random(count.shape) * count).astype(np.int64)
        place[count == 0] = 0
        weight = weigh(pending, place)
        accepted = (draws.random(count.shape) * bound < weight) & (count > 0)
        first = accepted.argmax(1)
        row = np.arange(len(pending))
        found = accepted[row, first]
        places[pending[found]] = place[row, first][found]
        pending, tries, done = pending[~found], min(MORE * tries, MOST), done + 1
    return places, pending


def weights_of(radial: Callable[[Tensor], Tensor], square: np.ndarray) -> np.ndarray:
    """What a kernel of distance gives squared distances, of any shape."""
    weights: np.ndarray = radial(torch.from_numpy(square)).numpy()
    return weights

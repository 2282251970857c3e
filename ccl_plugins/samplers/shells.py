"""Drawing in proportion to a weight that is bounded, shell by shell, without looking at all samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

TRIES = 6
"""Proposals for each anchor at first; a second round costs more than a few that are not needed."""

MORE = 4
"""How many times as many an anchor gets in every further round."""

MOST = 2**12
"""Proposals for an anchor in a round, at most."""


@dataclass(frozen=True)
class Shells:
    """Where n anchors may find a partner: for each, runs of samples that stand side by side.

    Args:
        low: (n, s) where each run begins.
        count: (n, s) samples in it; 0 for none.
        bound: (n, s) what no sample in it weighs more than.
    """

    low: np.ndarray
    count: np.ndarray
    bound: np.ndarray


def draw_within(
    shells: Shells,
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
        shells: Of n anchors.
        weigh: Weights (p, t) of places (p, t) for p of the anchors, which are given by number (p,).
        draws: Where random numbers come from.
        rounds: After how many rounds of proposals anchors are given up; None: never.

    Returns:
        places: (n,) int64; -1 for anchors without weight, and those given up.
        given_up: The numbers of the latter.
    """
    mass = (shells.count * shells.bound.astype(np.float64)).cumsum(1)
    places = np.full(len(mass), -1)
    pending = np.flatnonzero(mass[:, -1] > 0)
    tries, done = TRIES, 0
    while len(pending) and done != rounds:
        total = mass[pending]
        level = draws.random((len(pending), tries)) * total[:, -1:]
        shell = torch.searchsorted(
            torch.from_numpy(total), torch.from_numpy(level), right=True
        ).numpy()
        # A level may be rounded up to the total; the last shell may be empty then, and is refused.
        chosen = pending[:, None] * mass.shape[1] + np.minimum(shell, mass.shape[1] - 1)
        count, bound = shells.count.take(chosen), shells.bound.take(chosen)
        place = shells.low.take(chosen) + (draws.random(count.shape) * count).astype(np.int64)
        place[count == 0] = 0
        weight = weigh(pending, place)
        accepted = (draws.random(count.shape) * bound < weight) & (count > 0)
        first = accepted.argmax(1)
        row = np.arange(len(pending))
        found = accepted[row, first]
        places[pending[found]] = place[row, first][found]
        pending, tries, done = pending[~found], min(MORE * tries, MOST), done + 1
    return places, pending

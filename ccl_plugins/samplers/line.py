"""Partners by one number: what is near is found in the order of the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.samplers.shells import Shells, draw_within, weights_of

WIDER = 8
"""How many times as far each shell reaches as the one before it."""


class Line:
    """Samples in the order of their values.

    Args:
        values: (N,) or (N, 1) numbers.

    Attributes:
        values: (N,) float32 in order.
        order: (N,) the samples in that order; equal ones in their own.
        place: (N,) where in `order` each sample stands.
    """

    def __init__(self, values: Tensor) -> None:
        # Stable: all processes must agree on the order of equal values.
        ordered, self.order = values.float().flatten().sort(stable=True)
        self.values: np.ndarray = ordered.numpy()
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(len(self.order))

    def __len__(self) -> int:
        """N."""
        return len(self.values)


class FallingOnLine:
    """A partner with a probability proportional to a kernel of the distance, of values on a line.

    Exact, whatever the values and the scale.  Along the order of the values the kernel falls to both
    sides of an anchor, so what stands 1 to 7, 8 to 63, 64 to 511, ... places away weighs no more than the
    first of these; candidates are drawn in proportion to that bound, from all samples, and accepted by
    what they weigh (`draw_within`).  Nothing is cut off, and little is wasted: a shell's bound is at most
    the weight of every sample in the shell before, an eighth as large, so that at least one candidate
    in fifteen is accepted.

    Args:
        values: (N,) or (N, 1).
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        radial: The kernel by squared distance, nowhere rising.
    """

    def __init__(self, values: Tensor, own: bool, radial: Callable[[Tensor], Tensor]) -> None:
        self.line = Line(values)
        self.own = own
        self._fall = partial(weights_of, radial)
        shells = 0
        while WIDER**shells < len(self.line):
            shells += 1
        self._reach = WIDER ** np.arange(shells + 1)

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        place = self.line.place[anchors].numpy()
        value = self.line.values[place]

        def weigh(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
            return self._fall((self.line.values[places] - value[rows, None]) ** 2)

        shells = self._around(place, value)
        found, _ = draw_within(shells, np.arange(len(place)), weigh, draws)
        return self.line.order[torch.from_numpy(np.where(found < 0, place, found))]

    def _around(self, place: np.ndarray, value: np.ndarray) -> Shells:
        """The anchors themselves, what follows them and what comes before, each nearest first."""
        size = len(self.line)
        after = np.minimum(place[:, None] + self._reach, size)
        before = np.maximum(place[:, None] - self._reach, -1)
        low = np.concatenate([place[:, None], after[:, :-1], before[:, 1:] + 1], 1)
        count = np.concatenate(
            [np.full((len(place), 1), int(self.own)), np.diff(after), -np.diff(before)], 1
        )
        nearest = np.concatenate([place[:, None], after[:, :-1], before[:, :-1]], 1)
        gap = self.line.values[nearest.clip(0, size - 1)] - value[:, None]
        bound = self._fall(gap**2)
        first = np.arange(len(place) + 1) * low.shape[1]
        return Shells(first, low.ravel(), count.ravel(), bound.ravel())


class NearestOnLine:
    """One of the k samples that are nearest on a line, each with the same probability.

    The k nearest stand side by side in the order of the values; where they begin is found by bisection.
    Of samples at equal distances, those that come first in that order count as nearer.

    Args:
        values: (N,) or (N, 1).
        own: Whether a sample is one of its k nearest.
        k: 1 or more, of the samples that there are.
    """

    def __init__(self, values: Tensor, own: bool, k: int) -> None:
        self.line = Line(values)
        self.own = own
        self.k = k

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        place = self.line.place[anchors].numpy()
        first = self._first(place, self.k - self.own)
        chosen = first + draws.integers(self.k, size=len(place))
        if not self.own:
            chosen += chosen >= place
        return self.line.order[torch.from_numpy(chosen)]

    def _first(self, place: np.ndarray, others: int) -> np.ndarray:
        """Where the nearest ``others`` and the sample itself begin."""
        values, size = self.line.values, len(self.line)
        low = np.maximum(place - others, 0)
        high = np.minimum(place, size - 1 - others)
        while (low < high).any():
            middle = (low + high) // 2
            # The first of this window against what follows its last: the nearer one stays.
            left = values[place] - values[middle]
            right = values[np.minimum(middle + others + 1, size - 1)] - values[place]
            farther = (left > right) & (low < high)
            low, high = np.where(farther, middle + 1, low), np.where(farther, high, middle)
        return low

"""Intervals of measurements: the bootstrap over the measured samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypedDict

import torch
from torch import Tensor

DRAWS = 1000
"""The number of bootstrap draws, each with as many samples as there are, with replacement."""

ENDS = (0.025, 0.975)
"""The quantiles of the draws that bound the interval, which holds 95 % of them."""

FEW = 10
"""With fewer groups, or samples of a group, draws are too similar and intervals too narrow."""


_WANTED = ContextVar("intervals", default=True)


@contextmanager
def without_intervals() -> Iterator[None]:
    """Evaluators that are called inside return numbers without intervals, which is quick."""
    token = _WANTED.set(False)
    try:
        yield
    finally:
        _WANTED.reset(token)


_GROUPS: ContextVar[Tensor | None] = ContextVar("groups", default=None)

_SAID: set[str] = set()
"""The warnings that `warn_once` has given."""


def warn_once(text: str, stacklevel: int = 2) -> None:
    """Warn, unless this process gave the same warning before, or inside of `without_intervals`."""
    if _WANTED.get() and text not in _SAID:
        warnings.warn(text, stacklevel=stacklevel + 1)
        _SAID.add(text)


@contextmanager
def over_groups(groups: Tensor | None) -> Iterator[None]:
    """Intervals that are computed inside are over groups of the measured samples, given by ids (n,).

    If other samples than these n are measured, such as a part of them, no interval is given,
    because one over samples would be too narrow. With fewer than `FEW` groups there is a warning,
    once. None: intervals are over samples.
    """
    if groups is not None and (count := len(groups.unique())) < FEW:
        few = f"{count} group{'s' * (count > 1)}: fewer than {FEW} give no interval"
        warn_once(f"the measured samples are of {few} (of {len(groups)} samples)", stacklevel=3)
    token = _GROUPS.set(groups)
    try:
        yield
    finally:
        _GROUPS.reset(token)


@contextmanager
def over_rows(rows: Tensor, n: int) -> Iterator[None]:
    """Intervals that are computed inside are over a part of n samples, the rows (k,)."""
    groups = _GROUPS.get()
    with over_groups(groups if groups is None or len(groups) != n else groups[rows]):
        yield


@contextmanager
def over_shared(places: Tensor) -> Iterator[None]:
    """Intervals that are computed inside are of k things that samples share, such as captions.

    Such a thing is of the group of its samples.  If it has samples of several groups, no interval is given.

    Args:
        places: (n,) which of the things a sample has, 0 to k - 1; each has one sample or more.
    """
    groups = _GROUPS.get()
    if groups is not None and len(groups) == len(places):
        shared = groups.new_empty(int(places.max()) + 1).scatter_(0, places, groups)
        groups = shared if (shared[places] == groups).all() else groups
    with over_groups(groups):
        yield


def drawn_apart(cells: Tensor) -> Tensor:
    """(c,) of how many samples a cell is, or inside of `over_groups` of how many groups; cells are (n,)."""
    groups = _GROUPS.get()
    if groups is not None and len(groups) == len(cells):
        cells = torch.stack([cells, groups]).unique(dim=1)[0]
    return cells.unique(return_counts=True)[1]


class Estimate(TypedDict):
    """A number with its interval: ``Measurement("knn/top1", **estimate, sentence=...)``.

    Args:
        value: The number.
        interval: The ends of its 95 % interval over the measured samples, or their groups, the
            lower one first; None: not asked for, or unknown.
        samples: The number of measured samples.
    """

    value: float
    interval: tuple[float, float] | None
    samples: int


def mean(values: Tensor) -> Estimate:
    """The mean of a number per measured sample, such as 1 if it was classified right; values are (n,)."""
    values = values.double()
    return estimate(len(values), lambda counts: counts @ values / len(values))


def estimate(
    n: int, statistic: Callable[[Tensor], Tensor], width: int = 1, *, centered: bool = False
) -> Estimate:
    """A number with its 95 % interval, by 1000 draws from a generator that is the same in every call.

    Inside of `over_groups`, whole groups are drawn, and the samples of a draw count as n together.
    If the number is outside the interval, the interval is widened to it, as for the largest of
    several differences: draws make each of them larger more often than smaller.

    Args:
        n: Measured samples, 1 or more.
        statistic: Takes (k, n) float64, the counts of the samples in k draws, and returns the (k,)
            numbers of the draws; NaN if a draw does not define the number, for example without a
            sample of some class. A row of ones gives the number itself.
        width: The count of numbers that the statistic keeps for a draw, if more than n; this limits
            how many draws are computed together.
        centered: Whether the interval is shifted so that the mean of the draws is the number.
            Statistics of pairs of samples and entropies need this, because draws repeat samples and
            so raise them.

    Source:
        Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3: the percentile
        interval.  Field and Welsh, Bootstrapping clustered data (2007), section 3: whole groups.
    """
    value = statistic(torch.ones(1, n, dtype=torch.float64)).item()
    groups = _GROUPS.get()
    if not _WANTED.get() or (groups is not None and len(groups) != n):
        return Estimate(value=value, interval=None, samples=n)
    units, place = n, None
    if groups is not None:
        place = groups.unique(return_inverse=True)[1]
        units = int(place.max()) + 1
        if units < FEW:
            return Estimate(value=value, interval=None, samples=n)
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for first in range(0, DRAWS, part := max(1, 2**20 // max(n, width))):
        rows = torch.randint(units, (min(part, DRAWS - first), units), generator=generator)
        counts = torch.zeros(rows.shape, dtype=torch.float64)
        counts.scatter_add_(1, rows, torch.ones_like(counts))
        if place is not None:
            counts = counts[:, place]
            counts *= n / counts.sum(1, keepdim=True)
        drawn.append(statistic(counts))
    draws = torch.cat(drawn)
    if centered:
        draws += value - draws.nanmean()
    low, high = draws.nanquantile(torch.tensor(ENDS, dtype=torch.float64)).tolist()
    return Estimate(value=value, interval=(min(low, value), max(high, value)), samples=n)


def tally(counts: Tensor, cells: Tensor, size: int) -> Tensor:
    """(k, size) counts of each cell's samples in k draws.

    Args:
        counts: (k, n) counts of each sample in the draws.
        cells: (n,) the cell of each sample, 0 to size - 1.
        size: The number of cells.
    """
    return counts.new_zeros(len(counts), size).index_add_(1, cells, counts)

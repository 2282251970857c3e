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
"""Samples are drawn so many times, as many as there are and with replacement."""

ENDS = (0.025, 0.975)
"""The quantiles of the draws that bound the interval: it holds 95 % of them."""

FEW = 10
"""Groups, or samples of a group, below which draws are too alike: intervals over them are too narrow."""


_WANTED = ContextVar("intervals", default=True)


@contextmanager
def without_intervals() -> Iterator[None]:
    """Evaluators that are called inside give numbers alone, which is quick."""
    token = _WANTED.set(False)
    try:
        yield
    finally:
        _WANTED.reset(token)


_GROUPS: ContextVar[Tensor | None] = ContextVar("groups", default=None)

_SAID: set[str] = set()
"""What `warn_once` has said."""


def warn_once(text: str, stacklevel: int = 2) -> None:
    """Warn, unless this process has said the same before; inside of `without_intervals`, say nothing."""
    if _WANTED.get() and text not in _SAID:
        warnings.warn(text, stacklevel=stacklevel + 1)
        _SAID.add(text)


@contextmanager
def over_groups(groups: Tensor | None) -> Iterator[None]:
    """Intervals that are computed inside are over groups of the measured samples, given by ids (n,).

    Where other samples are measured than these n, as a part of them, no interval is given: one over samples
    would be too narrow, as is one over fewer than `FEW` groups, which is a warning, said once.  None:
    intervals are over samples.
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
    """Intervals that are computed inside are of a part of n samples, those in these rows (k,)."""
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
    """What the samples say of a number: ``Measurement("knn/top1", **estimate, sentence=...)``.

    Args:
        value: The number.
        interval: The ends of its 95 % interval over the measured samples, or their groups, the lower one
            first; None: it was not asked for, or is not known.
        samples: How many samples were measured.
    """

    value: float
    interval: tuple[float, float] | None
    samples: int


def mean(values: Tensor) -> Estimate:
    """The mean of a number per measured sample, as whether it was classified rightly; values are (n,)."""
    values = values.double()
    return estimate(len(values), lambda counts: counts @ values / len(values))


def estimate(
    n: int, statistic: Callable[[Tensor], Tensor], width: int = 1, *, centered: bool = False
) -> Estimate:
    """A number with its 95 % interval, by 1000 draws from a generator that is the same in every call.

    Inside of `over_groups`, whole groups are drawn, and the samples of a draw count as n together.  The
    interval is widened to the number where that lies outside, as the largest of several differences
    may: draws make each of them larger more often than smaller.

    Args:
        n: Measured samples, 1 or more.
        statistic: From (k, n) float64, how often each of k draws has each sample, to the (k,) numbers of
            the draws; NaN where a draw does not define the number, as without a sample of some class.  A
            row of ones gives the number itself.
        width: The numbers that the statistic holds for a draw, if these are more than n; so many draws
            are computed together as fit into little memory.
        centered: Whether the interval is moved so that the mean of the draws is the number: for statistics
            of pairs of samples and for entropies, which draws raise, since they repeat samples.

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
    """(k, size) how often each of k draws has samples of each cell.

    Args:
        counts: (k, n) how often each draw has each sample.
        cells: (n,) the cell of each sample, 0 to size - 1.
        size: The number of cells.
    """
    return counts.new_zeros(len(counts), size).index_add_(1, cells, counts)

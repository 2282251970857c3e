"""Sampling among some of the samples, where others are left out of training."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ccl_plugins.protocols import Sampler


class Remaining:
    """A sampler's batches among the samples that remain.

    Args:
        sampler: Made for as many samples as there are rows.
        rows: (r,) the dataset index of each.
    """

    def __init__(self, sampler: Sampler, rows: Tensor) -> None:
        self.sampler = sampler
        self.rows = rows

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """Global batches of dataset indices."""
        for batch in self.sampler.batches(epoch, start):
            yield self.rows[batch]

"""The samples of each value of a categorical condition, and what samplers of them share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Groups:
    """The samples sorted by their value: those of one value stand side by side.

    Building takes one sort and no work per value.

    Args:
        values: (N,) class ids, or (N, L) for a hierarchy, whose groups are equal in all L columns.

    Attributes:
        order: (N,) the samples, group by group.
        ids: (N,) each sample's group, 0 to G - 1 in the order of the values.
        place: (N,) where in `order` each sample stands.
        first: (G,) where in `order` each group begins.
        count: (G,) samples in each group.
    """

    def __init__(self, values: Tensor) -> None:
        columns = values[:, None] if values.ndim == 1 else values
        ids = columns[:, 0]
        for column in columns.T[1:]:
            # Compact after each column, so that the product of many cannot overflow.
            column = column - column.min()
            ids = _compact(ids)[1] * (int(column.max()) + 1) + column
        self.order, self.ids, self.first = _compact(ids)
        size = torch.tensor([len(ids)])
        self.count = torch.cat([self.first, size]).diff()
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(len(ids))

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.count)

    def members(self, group: int) -> Tensor:
        """(count,) the samples of a group."""
        return self.order[self.first[group] : self.first[group] + self.count[group]]


def stream(*numbers: int) -> np.random.Generator:
    """A generator for the draws named by whole numbers: seed, epoch and what else tells them apart."""
    return np.random.default_rng(numbers)


def require_rows(condition: Tensor, size: int, batch_size: int) -> None:
    """Refuse values that do not belong to the samples, and batches that there are none of.

    Raises:
        ValueError: For another number of rows, or a batch larger than the data set.
    """
    if len(condition) != size:
        raise ValueError(
            f"condition must have a row for each of {size} samples, not {len(condition)}"
        )
    if not 1 <= batch_size <= size:
        raise ValueError(f"batch_size must be 1 to {size}, the number of samples, not {batch_size}")


def require_classes(condition: Tensor, sampler: str) -> None:
    """Refuse values that are no class ids.

    Raises:
        ValueError: Saying how class ids are made of them.
    """
    if condition.is_floating_point():
        raise ValueError(
            f"{sampler} needs a categorical condition, and this one holds numbers,"
            f" {tuple(condition.shape)} {condition.dtype}: make class ids of it with"
            " clusters(of=..., k=...)"
        )


def _compact(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The samples in order of their ids, ids 0 to G - 1, and where each begins in that order."""
    order = ids.argsort(stable=True)
    ordered = ids[order]
    begins = torch.ones(len(ids), dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=begins[1:])
    compact = torch.empty_like(order)
    compact[order] = begins.cumsum(0) - 1
    return order, compact, begins.nonzero().flatten()

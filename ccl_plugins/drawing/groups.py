"""The samples of each value of a categorical condition."""

from __future__ import annotations

import torch
from torch import Tensor


class Groups:
    """Samples sorted by their value, so that samples of equal value stand side by side.

    Building it takes one sort and no loop over values.

    Args:
        values: (N,) class ids, or (N, L) for a hierarchy; samples of a group are equal in all L columns.

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
        """The number of groups."""
        return len(self.count)

    def members(self, group: int) -> Tensor:
        """(count,) the samples of a group."""
        return self.order[self.first[group] : self.first[group] + self.count[group]]


def _compact(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The samples in order of their ids, ids 0 to G - 1, and where each begins in that order."""
    order = ids.argsort(stable=True)
    ordered = ids[order]
    begins = torch.ones(len(ids), dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=begins[1:])
    compact = torch.empty_like(order)
    compact[order] = begins.cumsum(0) - 1
    return order, compact, begins.nonzero().flatten()

"""The samples of each value of a categorical condition, and partners among them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.protocols import Kernel


class Groups:
    """Samples sorted by their value, so that samples of equal value are next to each other.

    Building it takes one sort and no loop over values.

    Args:
        values: (N,) class ids, or (N, L) for a hierarchy; samples of a group are equal in all L columns.

    Attributes:
        order: (N,) the samples, group by group.
        ids: (N,) each sample's group, 0 to G - 1 in the order of the values.
        place: (N,) the position of each sample in `order`.
        first: (G,) the position of each group's first sample in `order`.
        count: (G,) the number of samples in each group.
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
        return len(self.count)

    def members(self, group: int) -> Tensor:
        """(count,) the samples of a group."""
        return self.order[self.first[group] : self.first[group] + self.count[group]]


class OfClass:
    """A partner of the same class, each with the same probability.

    Args:
        values: (N,) class ids, or (N, L) for a hierarchy, whose partners are equal in all levels.
    """

    def __init__(self, values: Tensor, own_pair: bool) -> None:
        self.groups = Groups(values)
        self.own_pair = own_pair

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        groups = self.groups
        group = groups.ids[anchors]
        first, count = groups.first[group], groups.count[group]
        # Steps from the anchor around its group: 0 steps lead to the anchor itself.
        least = 0 if self.own_pair else (count > 1).long().numpy()
        steps = torch.from_numpy(draws.integers(least, count.numpy()))
        return groups.order[first + (groups.place[anchors] - first + steps) % count]


class ByClassKernel:
    """A partner with a probability proportional to a kernel of class ids; negative values count as 0.

    Exact: a kernel that reads class ids as one-hot vectors has one value within a class and another
    between classes.

    Args:
        values: (N,) class ids.
        kernel: One with ``one_hot``.
    """

    def __init__(self, values: Tensor, own_pair: bool, kernel: Kernel) -> None:
        two = torch.arange(2)
        within, between = similarities(kernel, two[:1], two)[0].clamp_min(0).tolist()
        self._same = OfClass(values, own_pair)
        count = self._same.groups.count.numpy()
        mass = within * (count - (not own_pair)), between * (len(values) - count)
        total = mass[0] + mass[1]
        self._within = np.divide(mass[0], total, out=np.ones(len(count)), where=total > 0)
        self._alone = total == 0

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        groups = self._same.groups
        group = groups.ids[anchors]
        first, count = groups.first[group].numpy(), groups.count[group].numpy()
        others = len(groups.ids) - count
        is_within = draws.random(len(anchors)) < self._within[group]
        # The samples of other classes: those before the group, then those after it.
        place = draws.integers(np.maximum(others, 1))
        place += np.where((place >= first) & (others > 0), count, 0)
        partners = self._same.draw(anchors, draws)
        partners = torch.where(torch.from_numpy(is_within), partners, groups.order[place])
        return torch.where(torch.from_numpy(self._alone[group]), anchors, partners)


def _compact(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The samples in the order of their ids, ids 0 to G - 1, and the first position of each id."""
    order = ids.argsort(stable=True)
    ordered = ids[order]
    begins = torch.ones(len(ids), dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=begins[1:])
    compact = torch.empty_like(order)
    compact[order] = begins.cumsum(0) - 1
    return order, compact, begins.nonzero().flatten()

"""Partners by class ids."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.drawing.groups import Groups
from ccl_plugins.numerics.kernel_functions import similarities
from ccl_plugins.protocols import Kernel


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

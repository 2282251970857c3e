"""Drawing a partner for each anchor from P(.|z), the samples that share its condition or are like it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.protocols import Kernel
from ccl_plugins.samplers.groups import Groups


class Partners(Protocol):
    """P(.|z)."""

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) a partner for each of (n,) anchors."""
        ...


class OfGroup:
    """A partner of the same class, each with the same probability.

    Args:
        values: (N,) or (N, L) class ids.
        own: Whether a sample may be its own partner; one that is alone always is.
    """

    def __init__(self, values: Tensor, own: bool) -> None:
        self.groups = Groups(values)
        self.own = own

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        groups = self.groups
        group = groups.ids[anchors]
        first, count = groups.first[group], groups.count[group]
        # From the anchor on, round the group: a distance of 0 is the anchor itself.
        least = 0 if self.own else (count > 1).long().numpy()
        away = torch.from_numpy(draws.integers(least, count.numpy()))
        return groups.order[first + (groups.place[anchors] - first + away) % count]


class ByClassKernel:
    """A partner with a probability proportional to a kernel of class ids, negative ones counting as 0.

    Exact: a kernel that counts class ids as one-hot vectors has one value within a class and another
    between classes.

    Args:
        ids: (N,) class ids.
        own: Whether a sample may be its own partner; one that the kernel likens to no other always is.
        kernel: One with ``one_hot``.
    """

    def __init__(self, ids: Tensor, own: bool, kernel: Kernel) -> None:
        two = torch.arange(2)
        within, between = kernel(two[:1], two)[0].clamp_min(0).tolist()
        self._same = OfGroup(ids, own)
        count = self._same.groups.count.numpy()
        mass = within * (count - (not own)), between * (len(ids) - count)
        total = mass[0] + mass[1]
        self._within = np.divide(mass[0], total, out=np.ones(len(count)), where=total > 0)
        self._alone = total == 0

    def draw(self, anchors: Tensor, draws: np.random.Generator) -> Tensor:
        """(n,) partners."""
        groups = self._same.groups
        group = groups.ids[anchors]
        first, count = groups.first[group].numpy(), groups.count[group].numpy()
        others = len(groups.ids) - count
        stay = draws.random(len(anchors)) < self._within[group]
        # Outside the group, the samples before it and those after it are one row.
        away = draws.integers(np.maximum(others, 1))
        away += np.where(away >= first, count, 0)
        partners = self._same.draw(anchors, draws)
        partners = torch.where(torch.from_numpy(stay), partners, groups.order[away])
        return torch.where(torch.from_numpy(self._alone[group]), anchors, partners)

"""Clusters made from the labels, with a chosen amount of information about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import checked, one_of, whole
from ccl_plugins.metadata.columns import class_ids
from ccl_plugins.metadata.variable import check_policy
from ccl_plugins.protocols import Embedder, Missing, Refresh, Table, ValueType

Family = Literal["mutual", "conditional", "entropy"]


@dataclass(eq=False, repr=False)
class Synthetic:
    """Clusters Z made from the labels T, with a chosen I(Z;T) and H(Z|T).

    A family is named after the quantity that it keeps fixed:

    - ``"mutual"``: I(Z;T) = H(T).  Each class is split: at level 0 into its samples (Z is the
      instance); at each further level, ``branch`` neighboring clusters merge, until Z = T.
    - ``"conditional"``: H(Z|T) = 0.  Classes are merged: at level 0, Z = T; at each further level,
      ``branch`` neighboring clusters merge, until one is left.
    - ``"entropy"``: H(Z), equal to that of ``"mutual"`` at the same level. The samples of ``mixed``
      classes exchange their clusters at random, so that I(Z;T) falls and H(Z|T) rises with
      ``mixed``.

    Neighbors are drawn at random.

    Shape:
        N samples -> (N,) class ids

    Args:
        family: The quantity that is kept fixed.
        level: The level, from 0, the finest; a class of few samples becomes one cluster earlier
            than others.
        mixed: For ``"entropy"``, the number of mixed classes, from 0 (the same as ``"mutual"``) to
            all.
        branch: The number of clusters that merge from one level to the next, 2 or more.
        seed: Seed of the random choices; with 0 the first two families are those of the released
            code.
        column: The metadata column of T, class ids.
        missing: What to do with samples without a label: ``"error"``, ``"own"``, ``"ignore"`` or
            ``"drop"`` (see `ccl_plugins.conditions.Column`).

    Raises:
        ValueError: For a number out of range; on use, for a level beyond the last and for more mixed
            classes than there are.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), section 4.2 and
        appendix H.
    """

    refresh: ClassVar[Refresh] = "never"
    value_type: ClassVar[ValueType] = "categorical"
    EXAMPLE: ClassVar[Mapping[str, Any]] = {"family": "conditional", "level": 1}

    family: Family = checked(one_of, choices=get_args(Family))
    level: int = checked(whole, least=0)
    mixed: int | None = checked(whole, least=0, default=None)
    branch: int = checked(whole, least=2, default=2)
    seed: int = checked(whole, least=0, default=0)
    column: str = "label"
    missing: Missing = "error"

    def __post_init__(self) -> None:
        if (self.mixed is None) == (self.family == "entropy"):
            raise ValueError(
                f"mixed= is a number of classes, and only for family 'entropy', not {self.mixed!r}"
            )
        check_policy(self.missing, self.value_type)

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The clusters of the training split."""
        labels = class_ids(split.metadata, self.column)
        valid = labels >= 0
        ids = torch.full_like(labels, -1)
        ids[valid] = torch.from_numpy(self._clusters(labels[valid].numpy()))
        return ids

    def _clusters(self, labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        if self.family == "conditional":
            self._check_level(last_level(len(values), self.branch))
            order = np.random.RandomState(self.seed).permutation(len(values))
            merged = np.empty(len(values), dtype=np.int64)
            merged[order] = within(len(values), self.level, self.branch)
            return merged[classes]
        self._check_level(max(last_level(size, self.branch) for size in sizes))
        ids = self._split(classes, sizes)
        return ids if self.mixed is None else self._mix(ids, classes, len(values))

    def _split(self, classes: Any, sizes: Any) -> np.ndarray[Any, Any]:
        ids, first = np.empty(len(classes), dtype=np.int64), 0
        for number, size in enumerate(sizes):
            parts = within(size, self.level, self.branch)
            rows = np.flatnonzero(classes == number)
            # The same draw at every level, so that each level joins clusters of the one before.
            ids[np.random.RandomState(self.seed).permutation(rows)] = first + parts
            first += parts[-1] + 1
        return ids

    def _mix(self, ids: Any, classes: Any, count: int) -> np.ndarray[Any, Any]:
        if self.mixed is None or self.mixed > count:
            raise ValueError(f"mixed={self.mixed} classes, but there are {count}")
        random = np.random.RandomState(self.seed)
        chosen = random.permutation(count)[: self.mixed]
        rows = np.flatnonzero(np.isin(classes, chosen))
        mixed = ids.copy()
        mixed[rows] = random.permutation(ids[rows])
        return mixed

    def _check_level(self, last: int) -> None:
        if self.level > last:
            raise ValueError(
                f"level {self.level} is beyond the last of family {self.family!r}, which is {last}"
            )


def last_level(size: int, branch: int) -> int:
    """The first level at which ``size`` members are one cluster."""
    level = 1
    while branch**level < size:
        level += 1
    return level


def within(size: int, level: int, branch: int) -> np.ndarray[Any, Any]:
    """(size,) the cluster of each member i at a level: ``i // branch**level``, all 0 at the last."""
    return np.arange(size, dtype=np.int64) // branch ** min(level, last_level(size, branch))

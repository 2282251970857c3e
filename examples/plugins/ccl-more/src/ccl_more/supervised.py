"""The base classes of supervised objectives, which compare an anchor with all views of all samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from ccl_plugins.arguments import positive
from ccl_plugins.objectives import ContrastiveObjective, Exclude, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor


@dataclass(frozen=True)
class Candidates:
    """The keys that anchor view ``i`` is compared with: m keys of each of v views, and q keys of the queue.

    Args:
        pairs: The pairs.
        i: The anchor view.
    """

    pairs: Pairs
    i: int

    def sims(self) -> Tensor:
        """(n, v m + q) inner products."""
        blocks = [self.pairs.sim(self.i, j) for j in range(len(self.pairs.key_views))]
        if self.pairs.queue is not None:
            blocks.append(self.pairs.sim_queue(self.i))
        return torch.cat(blocks, 1)

    def distances(self) -> Tensor:
        """(n, v m + q) Euclidean distances."""
        keys = self.pairs.keys.flatten(0, 1)
        keys = (
            keys
            if self.pairs.queue is None
            else torch.cat([keys, self.pairs.queue.of_view(self.i)])
        )
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(self.pairs.anchors[self.i], keys, compute_mode=exact)

    def columns(self, samples: Tensor) -> Tensor:
        """Values of samples (..., m + q), repeated for each view: (..., v m + q)."""
        m = self.pairs.keys.shape[1]
        return torch.cat([*[samples[..., :m]] * len(self.pairs.key_views), samples[..., m:]], -1)

    def with_own(self, others: Tensor) -> Tensor:
        """(n, v m + q) True at the own keys of other views, and where ``others`` (n, m + q) holds."""
        m, own = self.pairs.keys.shape[1], self.pairs.own()
        if self.pairs.samples.missing is not None:
            own = own & ~self.pairs.samples.missing
        mine = self.pairs.anchor_views[self.i]
        views = [others[:, :m] if k == mine else others[:, :m] | own for k in self.pairs.key_views]
        return torch.cat([*views, others[:, m:]], 1)


class ByView(ContrastiveObjective):
    """An objective with one value per anchor and anchor view.  Subclasses define ``row``."""

    within_view = True

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The rows of all anchor views."""
        self.refuse_draws(pairs)
        rows = [self.row(pairs, Candidates(pairs, i)) for i in range(len(pairs.anchor_views))]
        values, weights = (torch.stack(parts) for parts in zip(*rows, strict=True))
        return values, weights.to(values.dtype)

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Values and weights (n,) of the anchors of one view."""
        raise NotImplementedError(f"{type(self).__name__} must define row(pairs, candidates)")


class Supervised(ByView):
    """An objective with a temperature and a condition.  Subclasses define ``row``."""

    value_types = ("categorical",)
    temperature = ScalarAttribute(positive, learnable=True)

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        self.temperature = temperature
        self.on = on


class WithClasses(Supervised):
    """A supervised objective with something for each class, created in ``setup``.

    Subclasses define ``create``, and register what it creates as None before.
    """

    held: ClassVar[str] = "centers"
    """The attribute with a row for each class."""

    @property
    def classes(self) -> int:
        """The number of classes; 0 before ``setup``."""
        rows = getattr(self, self.held)
        return 0 if rows is None else len(rows)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create what belongs to the classes of the table; call it before the optimizer exists.

        Raises:
            ValueError: If the condition has no table.
        """
        if (table := tables.get(self.on)) is None:
            raise ValueError(
                f"{type(self).__name__} reads the classes of {self.on!r} before training, which has no"
                " table: use a condition that is fitted, such as label or clusters"
            )
        if self.classes == 0:  # else it was loaded
            ids = table.values[table.values >= 0]
            self.create(ids.bincount(), sizes)

    def create(self, counts: Tensor, sizes: Sizes) -> None:
        """Create what belongs to the classes; ``counts`` (classes,) are their samples."""
        raise NotImplementedError(f"{type(self).__name__} must define create(counts, sizes)")

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse classes that ``setup`` has not seen."""
        if (largest := int(condition[self.on].max())) >= self.classes:
            raise ValueError(
                f"class {largest} is not among {self.classes} classes: call setup(tables, sizes)"
                " with the ids of all samples"
            )

    def of_class(self, pairs: Pairs) -> Tensor:
        """(n, classes) True at the class of each anchor."""
        ids = pairs.everyone(self.on)[pairs.rows]
        return ids[:, None] == torch.arange(self.classes, device=ids.device)


def mean_over(chosen: Tensor, values: Tensor) -> Tensor:
    """(n,) means of the chosen values (n, k); 0 for rows without any."""
    return (values * chosen).sum(1) / chosen.sum(1).clamp_min(1)

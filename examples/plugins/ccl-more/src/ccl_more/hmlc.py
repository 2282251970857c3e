"""HMLC: supervised contrastive learning on all levels of a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from ccl_plugins.arguments import non_negative, one_of
from ccl_plugins.numerics import gather, logsumexp, masked
from ccl_plugins.objectives import Exclude, Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised, mean_over


class HMLC(Supervised):
    """Hierarchical multi-label contrastive loss: pairs that are nearer in the hierarchy come closer.

    ``(1 / L) Σ_l λ_l (1 / |P_l|) Σ_{p in P_l} max( ℓ(i, p), M_l )``, with ``ℓ(i, p) = -log( e_p / Σ_a e_a )``.
    Levels l = 1, ..., L are the columns of the condition, from coarse to fine.  Positives P_l: all views
    of the other samples that share the anchor's classes down to level l and not below; on the finest
    level, also the anchor's other views.  A level without positives is 0 for that anchor.  M_l is the
    largest loss of a pair on finer levels, so that no pair has a smaller loss than one that is nearer in
    the hierarchy.  The denominator has all views of all samples but the anchor.

    Derived from the paper's equations: the positives of a level, and the largest loss of a single pair.
    The authors' code compares the mean losses of levels, keeps one sample of each class of the level
    below, and counts all samples with equal classes as positives.  As in that code: the weights, which
    the equation leaves open, and the largest loss of all finer levels instead of the next one.

    Shape:
        (b, d), (b, d), condition (b, L) of class ids -> ()

    Args:
        form: ``"himulcone"``; ``"himulcon"``: without M_l; ``"hicone"``: with all λ_l = 1.
        weights: λ_l for each level, from coarse to fine, 0 or more; None: ``2^(1 / (L - l + 1))``, which
            grows to 2 on the finest level.

    Raises:
        ValueError: For weights that are not one for each level, and for levels that do not go from coarse
            to fine.

    Defaults:
        temperature: Code: 0.07; 0.1 (README).

    Source:
        Zhang et al., Use All the Labels: A Hierarchical Multi-Label Contrastive Learning Framework
        (2022), HiMulConE, HiMulCon and HiConE.
    """

    EXAMPLE_CONDITION: ClassVar[Any] = [[0, 0], [0, 1], [1, 2], [1, 2], [0, 0], [1, 3], [0, 1]]
    hierarchies = True

    def __init__(
        self,
        temperature: Scalar = 0.07,
        *,
        form: Literal["himulcone", "himulcon", "hicone"] = "himulcone",
        weights: Sequence[float] | None = None,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.form = one_of("form", form, ("himulcone", "himulcon", "hicone"))
        if weights is not None and form == "hicone":
            raise ValueError("form='hicone' has no weights: give form='himulcone'")
        self.weights = weights and [non_negative("weights", each) for each in weights]

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Refuse a table whose levels do not go from coarse to fine."""
        ids = tables[self.on].values if self.on in tables else torch.zeros(0, 1)
        counts = [len(column.unique()) for column in ids.reshape(len(ids), -1).T]
        if counts != sorted(counts):
            raise ValueError(
                f"the levels of {self.on!r} must go from coarse to fine, and have {counts} classes: give"
                " levels=[...] or k=[...] in ascending order"
            )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and anchor view."""
        self.refuse_draws(pairs)
        if pairs.positive is not None:
            raise ValueError(
                "HMLC reads positives from a hierarchy: it cannot take masks of positives"
            )
        views = [Candidates(pairs, i) for i in range(len(pairs.anchor_views))]
        levels = [self._levels(each) for each in views]
        losses = [self._losses(each, found) for each, found in zip(views, levels, strict=True)]
        weights = self._weights(len(levels[0]))
        values = torch.zeros(len(views), pairs.anchors.shape[1]).to(losses[0])
        for each in reversed(range(len(weights))):  # from the finest level
            chosen = [found[each] for found in levels]
            parts = [mean_over(*both) for both in zip(chosen, losses, strict=True)]
            values = values + weights[each] / len(weights) * torch.stack(parts)
            if self.form != "himulcon" and each:
                least = self._largest(pairs, chosen, losses)
                losses = [torch.maximum(loss, least) for loss in losses]
        found = torch.stack([torch.stack(masks).any(0).any(1) for masks in levels])
        return values, found.to(values.dtype)

    def _levels(self, candidates: Candidates) -> list[Tensor]:
        """(n, k) True at the positives of each level, from coarse to fine."""
        pairs = candidates.pairs
        ids = pairs.everyone(self.on, candidates.i)
        columns = ids.reshape(len(ids), -1).T
        shared = [pairs.counted()]
        for column in columns:
            shared.append(shared[-1] & (column[pairs.rows, None] == column))
        nested = pairwise(shared[1:])
        coarser = [candidates.columns(above & ~below) for above, below in nested]
        return [*coarser, candidates.with_own(shared[-1])]

    def _losses(self, candidates: Candidates, levels: list[Tensor]) -> Tensor:
        """(n, k) the loss of each pair."""
        keep = candidates.with_own(candidates.pairs.counted(candidates.pairs.negative))
        logits = candidates.sims() / self.temperature
        return logsumexp(masked(logits, torch.stack([keep, *levels]).any(0)))[:, None] - logits

    def _largest(self, pairs: Pairs, chosen: list[Tensor], losses: list[Tensor]) -> Tensor:
        """The largest loss of a chosen pair, of all processes."""
        found = [masked(loss, mask).amax() for loss, mask in zip(losses, chosen, strict=True)]
        top = torch.stack(found).amax()
        return gather(top[None]).amax() if pairs.processes > 1 else top

    def _weights(self, levels: int) -> list[float]:
        if self.form == "hicone":
            return [1.0] * levels
        if self.weights is None:
            return [2 ** (1 / (levels - each)) for each in range(levels)]
        if len(self.weights) != levels:
            raise ValueError(f"weights has {len(self.weights)} numbers for {levels} levels")
        return list(self.weights)

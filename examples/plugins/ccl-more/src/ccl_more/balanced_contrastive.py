"""Balanced contrastive learning: every class has equal influence, and a learned center."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor, nn
from torch.nn.functional import normalize

from ccl_more.supervised import Candidates, Supervised, mean_over


class BalancedContrastive(Supervised):
    """Balanced contrastive loss for long-tailed classes, with a learned center for each class.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_c (1 / |B_c|) Σ_{a in B_c} e_a )``.  Positives P: the anchor's
    other views, all views of the other samples of its class, and the center of its class.  B_c: all
    views of class c except the anchor, and the center of c.

    Not in the paper's form: centers are parameters, while the paper computes them from a classifier's
    weights; the paper's second loss, a classification, is left out.

    Args:
        temperature: τ, above 0.
        on: The name of the condition, class ids.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Zhu et al., Balanced Contrastive Learning for Long-Tailed Visual Recognition (2022), L_BCL.
    """

    centers: nn.Parameter

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)
        self.register_parameter("centers", None)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create a center for each class of the table; call it before the optimizer exists."""
        if self.centers is None:
            classes = int(tables[self.on].values.max()) + 1
            self.centers = nn.Parameter(torch.randn(classes, sizes.embedding))

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse classes without a center."""
        centers = 0 if self.centers is None else len(self.centers)
        largest = int(condition[self.on].max())
        if largest >= centers:
            raise ValueError(
                f"class {largest} has no center among {centers}: call setup(tables, sizes)"
                " with the ids of all samples"
            )

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        same_class, centers = pairs.alike(self.on), normalize(self.centers, dim=1)
        keep = candidates.with_own(pairs.contrasted(same_class))
        positives = candidates.with_own(same_class)
        classes = torch.arange(len(centers), device=centers.device)
        # Entries that no anchor compares with, such as empty places of the queue, may hold any id.
        ids = candidates.columns(pairs.everyone(self.on)).masked_fill(~keep.any(0), 0)
        sizes = 1 + keep.to(centers.dtype) @ (ids[:, None] == classes).to(centers.dtype)
        own_center = pairs.everyone(self.on)[pairs.rows, None] == classes
        logits = torch.cat([candidates.sims(), pairs.anchors[candidates.i] @ centers.T], 1)
        logits, log_sizes = logits / self.temperature, torch.cat([sizes[:, ids], sizes], 1).log()
        keep = torch.cat([keep, torch.ones_like(own_center)], 1)
        positives = torch.cat([positives, own_center], 1)
        value = logsumexp(masked(logits - log_sizes, keep)) - mean_over(positives, logits)
        return value, positives.any(1)

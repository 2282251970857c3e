"""Balanced contrastive learning: every class has equal influence, and a learned center."""

from __future__ import annotations

import torch
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Exclude, Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes
from torch import Tensor, nn
from torch.nn.functional import normalize

from ccl_more.supervised import Candidates, WithClasses, mean_over


class BalancedContrastive(WithClasses):
    """Balanced contrastive loss for long-tailed classes, with a learned center for each class.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_c (1 / |B_c|) Σ_{a in B_c} e_a )``.  Positives P: the anchor's
    other views, all views of the other samples of its class, and the center of its class.  B_c: all
    views of class c except the anchor, and the center of c.

    Not in the paper's form: centers are parameters, while the paper computes them from a classifier's
    weights; the paper's second loss, a classification, is left out.

    Source:
        Zhu et al., Balanced Contrastive Learning for Long-Tailed Visual Recognition (2022), L_BCL.
    """

    centers: nn.Parameter

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.register_parameter("centers", None)

    def create(self, counts: Tensor, sizes: Sizes) -> None:
        """Create the centers."""
        self.centers = nn.Parameter(torch.randn(len(counts), sizes.embedding))

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        same_class, centers = pairs.same_class(self.on), normalize(self.centers, dim=1)
        keep = candidates.with_own(pairs.contrasted(same_class))
        positives = candidates.with_own(same_class)
        classes = torch.arange(self.classes, device=centers.device)
        # Entries that no anchor compares with, such as empty places of the queue, may hold any id.
        ids = candidates.columns(pairs.everyone(self.on)).masked_fill(~keep.any(0), 0)
        sizes = 1 + keep.to(centers.dtype) @ (ids[:, None] == classes).to(centers.dtype)
        own_center = self.of_class(pairs)
        logits = torch.cat([candidates.sims(), pairs.anchors[candidates.i] @ centers.T], 1)
        logits, log_sizes = logits / self.temperature, torch.cat([sizes[:, ids], sizes], 1).log()
        keep = torch.cat([keep, torch.ones_like(own_center)], 1)
        positives = torch.cat([positives, own_center], 1)
        value = logsumexp(masked(logits - log_sizes, keep)) - mean_over(positives, logits)
        return value, positives.any(1)

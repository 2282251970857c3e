"""Balanced contrastive learning: every class counts alike, and each is in every batch."""

from __future__ import annotations

import torch
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.pairs import Pairs
from torch import Tensor
from torch.nn.functional import normalize

from ccl_more.candidates import Candidates
from ccl_more.class_centers import ClassCenters
from ccl_more.supervised import mean_over


class BalancedContrastive(ClassCenters):
    """Supervised contrast with learned class centers, whose denominator averages within classes.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_c (1 / |B_c|) Σ_{a in B_c} e_a )``.  Positives: the own other
    views, all views of the anchor's class, and its center.  B_c: all views of class c but the anchor,
    and its center.

    Left open: centers are parameters, where the paper makes them from a classifier's weights; its
    other branch, a classification loss, is not in it.

    Args:
        dim: Width of the embeddings.
        temperature: τ, above 0.
        on: The name of the condition that is read, class ids.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Zhu et al., Balanced Contrastive Learning for Long-Tailed Visual Recognition (2022), L_BCL.
    """

    def row(self, pairs: Pairs, beside: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        alike, centers = pairs.alike(self.on), normalize(self.centers, dim=1)
        keep, chosen = beside.with_own(pairs.contrasted(alike)), beside.with_own(alike)
        classes = torch.arange(len(centers), device=centers.device)
        # What stands in the queue's empty places is no class.
        ids = beside.columns(pairs.everyone(self.on)).masked_fill(~keep.any(0), 0)
        sizes = 1 + keep.to(centers.dtype) @ (ids[:, None] == classes).to(centers.dtype)
        mine = pairs.everyone(self.on)[pairs.rows, None] == classes
        logits = torch.cat([beside.sims(), pairs.anchors[beside.i] @ centers.T], 1)
        logits, shares = logits / self.temperature, torch.cat([sizes[:, ids], sizes], 1).log()
        keep, chosen = torch.cat([keep, mine | True], 1), torch.cat([chosen, mine], 1)
        return logsumexp(masked(logits - shares, keep)) - mean_over(chosen, logits), chosen.any(1)

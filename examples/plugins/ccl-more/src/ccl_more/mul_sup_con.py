"""MulSupCon: supervised contrastive learning with several labels per sample."""

from __future__ import annotations

from ccl_plugins.numerics import as_vectors, logsumexp, masked
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised


class MulSupCon(Supervised):
    """Multi-label supervised contrastive loss (MulSupCon): one supervised loss for each label.

    ``-(1 / |P_c|) Σ_{p in P_c} log( e_p / Σ_a e_a )`` for each label c of the anchor, averaged over
    all labels of all anchors.  Positives P_c: the anchor's other views, and all views of the other
    samples with label c.  The denominator has all views of all samples except the anchor.  The weight
    of an anchor is the number of its labels that have positives: each label of each anchor counts alike,
    as in the authors' code by default, which can also divide by the number of labels of the anchor.

    Source:
        Zhang and Wu, Multi-Label Supervised Contrastive Learning (2024), MulSupCon.
    """

    value_types = ("multi_label",)

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        logits = candidates.sims() / self.temperature
        labels = as_vectors(pairs.everyone(self.on)).to(logits.dtype)
        alike = pairs.counted(pairs.positive) & (labels[pairs.rows] @ labels.T > 0)
        keep = candidates.with_own(pairs.contrasted(alike))
        positives = candidates.with_own(alike)
        columns = candidates.columns(labels.T)
        count = positives.to(logits.dtype) @ columns.T  # (n, c) positives with each label
        mine = labels[pairs.rows] * (count > 0)
        share = (mine / count.clamp_min(1)) @ columns * positives
        weights = mine.sum(1)
        mean = (share * logits).sum(1) / weights.clamp_min(1)
        return (logsumexp(masked(logits, keep)) - mean).where(weights > 0, 0), weights

"""MulSupCon: supervised contrast where a sample has several labels."""

from __future__ import annotations

from typing import ClassVar

from ccl_plugins.numerics import as_vectors, logsumexp, masked
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor

from ccl_more.candidates import Candidates
from ccl_more.supervised import Supervised


class MulSupCon(Supervised):
    """Multi-label supervised contrastive loss: a supervised contrastive loss for each label.

    ``-(1 / |P_c|) Σ_{p in P_c} log( e_p / Σ_a e_a )`` for each label c of the anchor, and the mean
    over all labels of all anchors.  Positives: the own other views, and all views of the samples that
    have the label; one that shares several labels counts for each.  The denominator has all views of
    all samples but the anchor.  An anchor counts as often as it has labels that another sample has.

    Args:
        temperature: τ, above 0.
        on: The name of the condition that is read, 0/1 columns.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Zhang and Wu, Multi-Label Supervised Contrastive Learning (2024), MulSupCon.
    """

    value_type: ClassVar[ValueType] = "multi_label"

    def row(self, pairs: Pairs, beside: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor, of the weight of its labels."""
        positives = pairs.counted(pairs.positive)
        chosen, shown = beside.with_own(positives), beside.with_own(pairs.contrasted(positives))
        logits = beside.sims() / self.temperature
        labels = as_vectors(pairs.everyone(self.on)).to(logits.dtype)
        columns = beside.columns(labels.T)
        count = chosen.to(logits.dtype) @ columns.T  # (n, c) how many samples have each label
        mine = labels[pairs.rows] * (count > 0)
        share = (mine / count.clamp_min(1)) @ columns * chosen
        weights = mine.sum(1)
        mean = (share * logits).sum(1) / weights.clamp_min(1)
        return (logsumexp(masked(logits, shown)) - mean).where(weights > 0, 0), weights

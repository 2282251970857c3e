"""Rank-N-Contrast: distances of embeddings follow the order of a continuous variable."""

from __future__ import annotations

from typing import Literal

import torch
from ccl_plugins.numerics import as_vectors, masked
from ccl_plugins.objectives import Scalar
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised


class RankNContrast(Supervised):
    """Rank-N-Contrast for regression, which contrasts each sample with those farther from the anchor.

    ``-(1 / |A|) Σ_{j in A} log( e_j / Σ_{k in A, |z_i - z_k| ≥ |z_i - z_j|} e_k )``, where ``e`` is the
    exponential of minus the Euclidean distance of raw embeddings over τ, and ``|z_i - z_j|`` the L1
    distance of condition values.  A: the anchor's other views, all views of the other samples, and the
    queue.

    The denominators of an anchor are a cumulative sum over its candidates, sorted from the farthest to
    the nearest: O(n m log m).

    Args:
        temperature: τ, above 0.
        on: The name of the condition, one or more real numbers.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Defaults:
        temperature: Paper: 2. Code: 2.

    Source:
        Zha et al., Rank-N-Contrast: Learning Continuous Representations for Regression (2023), eq. (1).
    """

    min_views = 1
    embedding: Literal["sphere", "raw"] = "raw"
    value_types = ("continuous",)

    def __init__(
        self, temperature: Scalar = 2.0, *, on: str = "condition", gather_distributed: bool = False
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        keep = candidates.with_own(pairs.counted(pairs.negative))
        z = as_vectors(pairs.everyone(self.on))
        gaps = candidates.columns(torch.cdist(z[pairs.rows], z, p=1)).masked_fill(~keep, -1)
        far, order = gaps.sort(1, descending=True)
        logits = masked(candidates.distances() / -self.temperature, keep).gather(1, order)
        tied = torch.searchsorted(-far, -far, right=True) - 1  # the last one at the same distance
        total, keep = logits.logcumsumexp(1).gather(1, tied), far >= 0
        values, count = (total - logits).where(keep, 0), keep.sum(1)
        return values.sum(1) / count.clamp_min(1), count > 0

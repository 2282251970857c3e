"""PaCo: learned class centers are keys beside the samples, so that rare classes are not drowned."""

from __future__ import annotations

from typing import Literal

import torch
from ccl_plugins.arguments import non_negative, one_of
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Exclude, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes
from torch import Tensor, nn
from torch.nn.functional import normalize

from ccl_more.supervised import Candidates, WithClasses


class PaCo(WithClasses):
    """Parametric contrastive loss (PaCo) for long-tailed classes: keys and a learned center per class.

    ``-Σ_{p in P} w_p log( e_p / D ) / Σ_{p in P} w_p``, with ``D = Σ_a e_a + Σ_c q_c e_c``.  Positives P: the
    anchor's other views and all views of the other samples of its class, with ``w_p = α``; and the center
    of its class, with ``w_p = 1``.  a: all views of all samples but the anchor; c: all centers, q_c the
    share of class c in the data.  e_c of a center is ``exp(c · f)`` of the backbone's features f.

    As in the authors' code, and not in the paper: the terms of an anchor are divided by the sum of their
    weights.

    Args:
        alpha: α, 0 or more.
        rebalance: Whether centers have the factor q_c, in its numerator too; otherwise it is 1.
        of: What centers are compared with: ``"backbone"`` features, as in the paper; or the
            ``"projection"``, with centers of unit norm and the temperature.

    Defaults:
        temperature: Code: 0.2 on ImageNet; 0.07 on CIFAR.
        alpha: Paper: 0.05. Code: 0.05.

    Source:
        Cui et al., Parametric Contrastive Learning (2021).
    """

    reads_projections = True
    alpha = ScalarAttribute(non_negative)
    centers: nn.Parameter
    counts: Tensor

    def __init__(
        self,
        temperature: Scalar = 0.2,
        alpha: Scalar = 0.05,
        *,
        rebalance: bool = True,
        of: Literal["backbone", "projection"] = "backbone",
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.alpha = alpha
        self.rebalance = rebalance
        self.of = one_of("of", of, ("backbone", "projection"))
        self.reads_features = of == "backbone"
        self.register_parameter("centers", None)
        self.register_buffer("counts", None)

    def create(self, counts: Tensor, sizes: Sizes) -> None:
        """Create the centers."""
        width = sizes.features if self.reads_features else sizes.embedding
        self.centers = nn.Parameter(nn.Linear(width, len(counts)).weight.detach())
        self.counts = counts.float()

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        alike, mine = pairs.same_class(self.on), self.of_class(pairs)
        keep = candidates.with_own(pairs.contrasted(alike))
        logits = candidates.sims() / self.temperature
        weights = self.alpha * candidates.with_own(alike).to(logits.dtype)
        to_centers = self._to_centers(pairs, candidates.i)
        total = logsumexp(torch.cat([masked(logits, keep), to_centers], 1))
        attraction = (weights * logits).sum(1) + (mine * to_centers).sum(1)
        value = total - attraction / (weights.sum(1) + 1)
        return value, torch.ones_like(value)

    def _to_centers(self, pairs: Pairs, i: int) -> Tensor:
        """(n, classes) logits of the centers, with their share of the data."""
        if not self.reads_features:
            logits = pairs.anchors[i] @ normalize(self.centers, dim=1).T / self.temperature
        elif pairs.samples.features is None:
            raise ValueError("PaCo compares centers with features, which these pairs do not have")
        else:
            logits = pairs.samples.features[i].to(pairs.anchors.dtype) @ self.centers.T
        if not self.rebalance:
            return logits
        counts = self.counts.to(logits.dtype)
        return logits + counts.clamp_min(1).log() - counts.sum().log()

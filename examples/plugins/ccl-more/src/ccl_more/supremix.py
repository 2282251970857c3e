"""SupReMix: supervised contrastive regression with mixtures of embeddings."""

from __future__ import annotations

from typing import ClassVar

import torch
from ccl_plugins.arguments import below_one, non_negative, positive
from ccl_plugins.numerics import as_vectors, logsumexp, masked
from ccl_plugins.objectives import Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised


class SupReMix(Supervised):
    """Supervised contrastive regression with mixtures as hard positives and negatives (SupReMix).

    ``-(1 / |P ∪ M|) Σ_{p in P ∪ M} log( e_p / (Σ_{a in P} e_a + Σ_{a in N} (w_a e_a + w'_a e'_a)) )``.
    Positives P: the anchor's other views, and all views of the samples with its value.  Negatives N: all
    views of the others, and the queue, with ``w = 1 + α |z_i - z_a|``.  Each negative gives an
    anchor-inclusive mixture ``x'_a = λ x_i + (1 - λ) x_a``, a hard negative, with the value
    ``λ z_i + (1 - λ) z_a`` in its weight w'.  Hard positives M are anchor-exclusive mixtures
    ``μ x_j + (1 - μ) x_k`` of all keys of the batch with ``z_i - γ < z_j < z_i < z_k < z_i + γ``, and μ
    such that ``μ z_j + (1 - μ) z_k = z_i``.  Anchors without positives get weight 0.

    The mean over all mixtures M is exact, from two products of matrices: none is formed.

    Written from the paper's abstract and from the authors' code, for the denominator and the positives,
    which was read and not run.  Ours: λ is a number, and not drawn from a beta distribution, whose mean
    is the default; the gradient flows through mixtures; M is not in the denominator; the queue is in no
    mixture of M.

    Args:
        temperature: τ, above 0.
        share: λ, the anchor's share in hard negatives, from 0 to below 1; None: without them.
        window: γ in the unit of the condition, above 0; None: without hard positives.  The authors' 5 is in
            years of age; a standardized condition needs less.
        magnify: α, 0 or more: how much more distant values repel.
        on: The name of the condition, one real number.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Wu et al., Mixup Your Own Pairs (2023), SupReMix.
    """

    value_types = ("continuous",)
    EXAMPLE_CONDITION: ClassVar[Tensor] = torch.tensor([0.3, 1.0, 0.5, 0.3, -0.2, 1.4, 0.7, 0.6])
    share = ScalarAttribute(below_one, optional=True)
    window = ScalarAttribute(positive, optional=True)
    magnify = ScalarAttribute(non_negative)

    def __init__(
        self,
        temperature: Scalar = 0.3,
        *,
        share: Scalar | None = 0.2,
        window: Scalar | None = 5.0,
        magnify: Scalar = 1.0,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)
        self.share, self.window, self.magnify = share, window, magnify

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        z = as_vectors(pairs.everyone(self.on, candidates.i))
        if z.shape[1] != 1:
            raise ValueError(
                f"{self.on} must be one number per sample, not {z.shape[1]}: they have no order"
            )
        z = z[:, 0]
        gaps = z - z[pairs.rows, None]
        given = pairs.positive
        alike = pairs.counted(gaps == 0 if given is None else given)
        others = pairs.contrasted(alike) & ~alike
        positives, negatives = candidates.with_own(alike), candidates.columns(others)
        sims = candidates.sims()
        far = candidates.columns(gaps.abs()).to(sims.dtype) * self.magnify
        real = sims / self.temperature
        repelled = [masked(real, positives), masked(real + torch.log1p(far), negatives)]
        if self.share is not None:
            hard = (self.share + (1 - self.share) * sims) / self.temperature
            repelled.append(masked(hard + torch.log1p((1 - self.share) * far), negatives))
        total = logsumexp(torch.cat(repelled, 1))
        attraction, number = (real * positives).sum(1), positives.sum(1).to(sims.dtype)
        if self.window is not None:
            mixed, more = self.mixtures(pairs, candidates, z, gaps, others)
            attraction, number = attraction + mixed / self.temperature, number + more
        value = total - attraction / number.clamp_min(1)
        return value.where(number > 0, 0), number > 0

    def mixtures(
        self, pairs: Pairs, candidates: Candidates, z: Tensor, gaps: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(n,) sums of inner products with the hard positives, and their numbers."""
        m, views = pairs.keys.shape[1], len(pairs.key_views)
        gaps, others, z = gaps[:, :m], others[:, :m], z[:m]
        below = (others & (gaps < 0) & (gaps > -self.window)).to(z.dtype)
        above = (others & (gaps > 0) & (gaps < self.window)).to(z.dtype)
        between = z - z[:, None]  # row j, column k: z_k - z_j
        inverse = torch.where(between > 0, 1 / between, 0)
        # Row i, column j: the sum of μ over all k; row i, column k: the sum of 1 - μ over all j.
        weights = below * ((above * gaps) @ inverse.T) + above * ((below * -gaps) @ inverse)
        keys = pairs.keys.sum(0)
        sims = pairs.anchors[candidates.i] @ keys.T
        number = views * views * below.sum(1) * above.sum(1)
        return (sims * weights.to(sims.dtype)).sum(1) * views, number.to(sims.dtype)

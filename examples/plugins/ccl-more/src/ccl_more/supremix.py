"""SupReMix: supervised contrastive regression with mixtures of embeddings."""

from __future__ import annotations

from typing import ClassVar

import torch
from ccl_plugins.arguments import below_one, non_negative, positive
from ccl_plugins.numerics import EMPTY, as_vectors, logsumexp
from ccl_plugins.objectives import Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.supervised import Supervised


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

    Defaults:
        temperature: Code: 0.3.
        window: Code: 5. Here: in years of age; the unit is the condition's.

    Source:
        Wu et al., Mixup Your Own Pairs (2023), SupReMix.
    """

    value_types = ("continuous",)
    EXAMPLE_CONDITION: ClassVar[Tensor] = torch.tensor([0.3, 1.0, 0.5, 0.3, -0.2, 1.4, 0.7, 0.6])
    share = ScalarAttribute(below_one, default=None)
    window = ScalarAttribute(positive, default=None)
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

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and anchor view; what the condition says is computed once for all views."""
        self.refuse_draws(pairs)
        rows: list[tuple[Tensor, Tensor]] = []
        for i in range(len(pairs.anchor_views)):
            if not rows or pairs.samples.condition[self.on].ndim == 3:
                weighed = self.weighed(pairs, i)
            rows.append(self.of_view(pairs, i, *weighed))
        values, weights = (torch.stack(parts) for parts in zip(*rows, strict=True))
        return values, weights.to(values.dtype)

    @torch.no_grad()
    def weighed(self, pairs: Pairs, i: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """Logarithms of weights in the denominator, weights of positives, and their number.

        (n, m + q) for embeddings and, unless ``share`` is None, for their mixtures; (n, m + q) that sums
        the inner products with P (without the own keys) and M; (n,).
        """
        z = as_vectors(pairs.everyone(self.on, i))
        if z.shape[1] != 1:
            raise ValueError(
                f"{self.on} must be one number per sample, not {z.shape[1]}: they have no order"
            )
        z = z[:, 0]
        gaps = z - z[pairs.rows, None]
        given = pairs.positive
        alike = pairs.counted(gaps == 0 if given is None else given)
        others = pairs.contrasted(alike) & ~alike
        dtype, m, views = pairs.anchors.dtype, pairs.keys.shape[1], len(pairs.key_views)
        far = gaps.abs().to(dtype) * self.magnify
        logs = [far.log1p().masked_fill_(~others, EMPTY).masked_fill_(alike, 0)]
        if self.share is not None:
            logs.append(torch.log1p((1 - self.share) * far).masked_fill_(~others, EMPTY))
        pulls = alike.to(dtype)
        number = views * pulls[:, :m].sum(1) + pulls[:, m:].sum(1)
        if self.window is not None:
            mixed, more = self.mixtures(z[:m], gaps[:, :m], others[:, :m])
            pulls[:, :m] += views * mixed
            number += views * views * more
        return logs, pulls, number

    def mixtures(self, z: Tensor, gaps: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """(n, m) sums of each sample's shares in the hard positives of one view, and their numbers (n,)."""
        below = (others & (gaps < 0) & (gaps > -self.window)).to(z.dtype)
        above = (others & (gaps > 0) & (gaps < self.window)).to(z.dtype)
        between = z - z[:, None]  # row j, column k: z_k - z_j
        inverse = torch.where(between > 0, 1 / between, 0)
        # Row i, column j: the sum of μ over all k; row i, column k: the sum of 1 - μ over all j.
        shares = below * ((above * gaps) @ inverse.T) + above * ((below * -gaps) @ inverse)
        return shares, below.sum(1) * above.sum(1)

    def of_view(
        self, pairs: Pairs, i: int, logs: list[Tensor], pulls: Tensor, number: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Values and weights (n,) of the anchors of one view."""
        m, anchors, missing = pairs.keys.shape[1], pairs.anchors[i], pairs.samples.missing
        own = anchors.new_zeros(len(anchors), 0)
        if mine := [j for j, k in enumerate(pairs.key_views) if k != pairs.anchor_views[i]]:
            own = torch.stack([pairs.own_sim(i, j) for j in mine], 1)
        number = number + own.shape[1] * (1 if missing is None else ~missing[pairs.rows])
        # The weighted sum of keys first, so that no matrix of inner products has a gradient.
        toward = pulls[:, :m] @ pairs.keys.sum(0)
        queries = anchors / self.temperature
        blocks = [((queries @ pairs.keys.flatten(0, 1).T).unflatten(1, (-1, m)), slice(0, m))]
        if pairs.queue is not None:
            keys = pairs.queue.of_view(i)
            toward = toward + pulls[:, m:] @ keys
            blocks.append(((queries @ keys.T)[:, None], slice(m, None)))
        repelled = [own / self.temperature]
        for scores, some in blocks:
            repelled.append(logsumexp(scores, logs[0][:, None, some]))
            if self.share is not None:
                hard = logsumexp(scores, logs[1][:, None, some], 1 - self.share)
                repelled.append(hard + self.share / self.temperature)
        total = torch.cat(repelled, 1).logsumexp(1)
        attraction = ((anchors * toward).sum(1) + own.sum(1)) / self.temperature
        value = total - attraction / number.clamp_min(1)
        return value.where(number > 0, 0), number > 0

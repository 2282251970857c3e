"""InfoNCE: one positive against the other samples of the batch and the queue."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.numerics.logsumexp import logsumexp, softplus
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.streaming import queue_logsumexp
from ccl_plugins.objectives.base import ContrastiveObjective, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class InfoNCE(ContrastiveObjective):
    r"""InfoNCE: tell another view of the same sample from the other samples.

    ``-log( e_ii / Σ_j e_ij )``.  Positive: the own sample's other view.  Negatives: the other samples'
    keys of that view, of the anchor's own view too if ``within_view``, and the queue; all of equal
    weight.  Anchors without negatives get weight 0.  With ``within_view`` it is NT-Xent, SimCLR's loss.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \{ j : j \neq i \}

    Defaults:
        temperature: Code: 0.07 to 0.5. Here: that of the conditional objectives, with which it is
            compared.

    Source:
        van den Oord et al., Representation Learning with Contrastive Predictive Coding (2018).  Tsai
        et al., Conditional Contrastive Learning with Kernel (2022), eq. (1) is ``symmetric=False``;
        their code computes ``within_view=True``.
    """

    streams_queue: ClassVar[bool] = True
    """Whether the queue is added block by block to ``values`` of the batch; else ``values`` reads it."""
    in_parts = True

    temperature: Scalar = ScalarAttribute(positive, default=0.1, learnable=True)
    _: KW_ONLY
    within_view: bool = False
    symmetric: bool = True

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Minus the log-probability of the positive, per pair of views."""
        where, cross = self.where(pairs), self.compared(pairs)
        queue = pairs.queue if self.streams_queue and pairs.draws is None else None
        batch = pairs if queue is None else replace(pairs, queue=None)
        rows = [self.values(batch, i, j, where) for i, j in cross]
        if queue is None:
            return stack_rows(rows)
        counted, views = pairs.in_queue(where), sorted({i for i, _ in cross})
        if pairs.negative is not None:
            counted = counted & pairs.in_queue(pairs.negative)
        has_negatives = counted.any(1)
        queries = torch.stack([pairs.anchors[i] for i in views]) / self.temperature
        (sums,) = queue_logsumexp(
            queries, queue.of_views(views), lambda columns: counted[:, columns]
        )
        queued = dict(zip(views, sums, strict=True))
        joined = []
        for (i, j), (values, weights) in zip(cross, rows, strict=True):
            negatives = queued[i] - pairs.own_sim(i, j) / self.temperature
            joined.append(
                (torch.logaddexp(values, negatives), torch.where(has_negatives, 1, weights))
            )
        return stack_rows(joined)

    def compared(self, pairs: Pairs) -> list[tuple[int, int]]:
        """Anchor and key positions of the views that are compared."""
        return list(pairs.cross(self.symmetric))

    def where(self, pairs: Pairs) -> Tensor | None:
        """(n, m + q) True at the other samples that the condition selects; None: all."""
        return None

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` selects the negatives."""
        log_sum, number = negatives(pairs, i, j, self.temperature, self.within_view, where)
        # Minus the own score itself: the diagonal of a product is another number, by rounding.
        values = softplus(log_sum - pairs.own_sim(i, j) / self.temperature)
        return values, torch.ones_like(values) * (number > 0)


def negatives(
    pairs: Pairs,
    i: int,
    j: int,
    temperature: Number,
    within_view: bool = False,
    where: Tensor | None = None,
) -> tuple[Tensor, Tensor | int]:
    """(n,) log-sum-exp of the scores of the negatives, and how many there are, a number or (n,).

    Arguments as in `Pairs.negatives`.
    """
    blocks = pairs.contrast(i, j, within_view, where)
    number = sum(s.shape[1] if keep is None else keep.sum(1) for s, keep in blocks) - 1
    if isinstance(temperature, Tensor):
        blocks, scale = [(sims / temperature, keep) for sims, keep in blocks], 1.0
    else:
        scale = 1 / temperature
    (first, keep), *blocks = blocks
    sums = [logsumexp(sims, counts, scale) for sims, counts in blocks]
    if pairs.draws is None:  # else the first block holds the own keys alone
        sums.append(logsumexp(first, keep, scale, leave_out=pairs.offset))
    return (sums[0] if len(sums) == 1 else torch.stack(sums).logsumexp(0)), number

"""HardNeg-InfoNCE: the negatives nearest to the anchor."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.arguments import whole
from ccl_plugins.numerics.logsumexp import EMPTY, logsumexp, masked
from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.pairs.pairs import Pairs


class HardNegInfoNCE(InfoNCE):
    """InfoNCE whose negatives look like the anchor, the baseline of HardNeg-CCLK.

    Positive: the own sample's other view.  Negatives: among the other samples' keys of that view, of
    the anchor's own view too where ``within_view``, and the queue, the ``nearest`` to the anchor's
    embedding; all of equal weight.  An anchor without negatives does not count.

    Where pairs have ``draws``, eq. (5) is computed as printed: the negatives are the drawn keys.  For
    negatives of the cluster that the anchor's embedding is in, use `FairInfoNCE` on such clusters.

    Args:
        temperature: τ, above 0.
        nearest: How many negatives an anchor has, 1 or more; all where there are fewer.
        within_view: Whether the anchor's own view gives negatives too.
        symmetric: Every view as anchor once; else only the earlier of two.
        exclude: Likely false negatives, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        TypeError: For a number of negatives that is not whole.
        ValueError: For a value out of range.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (5), which leaves open how
        keys near the anchor are drawn.
    """

    streams = False  # `values` goes through the queue

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        nearest: int = 16,
        within_view: bool = False,
        symmetric: bool = True,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            within_view=within_view,
            symmetric=symmetric,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.nearest = whole("nearest", nearest, 1)

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views."""
        if pairs.draws is not None:
            return super().values(pairs, i, j, where)
        own = pairs.own_sim(i, j)
        sims = torch.cat([masked(*b) for b in pairs.negatives(i, j, self.within_view, where)], 1)
        hardest = sims.topk(min(self.nearest, sims.shape[1])).values
        logits = torch.cat([own[:, None], hardest], 1) / self.temperature
        found = (hardest[:, 0] > EMPTY / 2).to(own.dtype)
        return logsumexp(logits) - own / self.temperature, found

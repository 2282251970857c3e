"""HardNeg-InfoNCE: negatives nearest to the anchor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole
from ccl_plugins.numerics.logsumexp import EMPTY, logsumexp, masked, softplus
from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False, kw_only=True)
class HardNegInfoNCE(InfoNCE):
    r"""InfoNCE with the negatives nearest to the anchor: the baseline of HardNeg-CCLK.

    ``-log( e_ii / (e_ii + Σ_{j in N} e_ij) )``.  Positive: the own sample's other view.  Negatives: of
    the other samples' keys of that view, of the anchor's own view too if ``within_view``, and the
    queue, the ``nearest`` keys N; all of equal weight.  Anchors without negatives get weight 0.

    If pairs have ``draws``, eq. (5) is computed as printed: the negatives are the drawn keys.  For
    negatives of the anchor's cluster, use `FairInfoNCE` on clusters of the embedding.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \text{the } \mathtt{nearest} \text{ keys } j \neq i \text{ with the largest } s_{ij}

    Args:
        nearest: The number of negatives of an anchor, 1 or more; all if there are fewer.

    Defaults:
        temperature: Here: that of the other conditional objectives.
        nearest: Here: the paper leaves the sampler open.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (5), which leaves open how
        keys near the anchor are drawn.
    """

    streams_queue = False

    nearest: int = checked(whole, least=1, default=16)

    def values(self, pairs: Pairs, i: int, j: int, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """(n,) values and weights of one pair of views; ``where`` selects the negatives."""
        if pairs.draws is not None:
            return super().values(pairs, i, j, where)
        sims = torch.cat([masked(*b) for b in pairs.negatives(i, j, self.within_view, where)], 1)
        hardest = sims.topk(min(self.nearest, sims.shape[1])).values
        own = pairs.own_sim(i, j) / self.temperature
        has_negatives = (hardest[:, 0] > EMPTY / 2).to(own.dtype)
        return softplus(logsumexp(hardest / self.temperature) - own), has_negatives

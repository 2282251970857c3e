"""InfoNCE: one positive against the other samples of the batch and the queue."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.numerics import logsumexp_blocks, masked
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.pairs import Pairs
from ccl_plugins.ranges import positive


class InfoNCE(ContrastiveObjective):
    """InfoNCE; with ``within_view`` it is NT-Xent, SimCLR's loss.

    Positive: the own sample's other view.  Negatives: the other samples' keys of that view, of the
    anchor's own view too where ``within_view``, and the queue; all of equal weight.

    Args:
        temperature: τ, above 0.
        within_view: Whether the anchor's own view gives negatives too.
        symmetric: Every view as anchor once; else only the earlier of two.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        van den Oord et al., Representation Learning with Contrastive Predictive Coding (2018).  Tsai
        et al., Conditional Contrastive Learning with Kernel (2022), eq. (1) is ``symmetric=False``;
        their code computes ``within_view=True``.
    """

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        within_view: bool = False,
        symmetric: bool = True,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.temperature = positive("temperature", temperature)
        self.within_view = within_view
        self.symmetric = symmetric

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Minus the log-probability of the own key, per pair of views."""
        values = torch.stack([self._pair(pairs, i, j) for i, j in pairs.cross(self.symmetric)])
        return values, torch.ones_like(values)

    def _pair(self, pairs: Pairs, i: int, j: int) -> Tensor:
        (block, _), *more = pairs.negatives(i, j, self.within_view)
        logits = [masked(block / self.temperature, pairs.candidates())]
        logits += [masked(sims / self.temperature, keep) for sims, keep in more]
        return logsumexp_blocks(logits) - pairs.own_sim(i, j) / self.temperature

"""SogCLR: contrast with the whole data set, through a moving average for each sample."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from ccl_plugins.arguments import positive
from ccl_plugins.numerics import EMPTY
from ccl_plugins.objectives import ContrastiveObjective
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.moving_averages import MovingAverages, log_mean_exp


class SogCLR(ContrastiveObjective):
    """Global contrastive loss (SogCLR), with a moving average per sample in place of a large batch.

    ``τ log u_i - s_ii'`` with the gradient ``τ ∇g_i / u_i - ∇s_ii'``.  g_i is the mean of ``exp(s / τ)``
    over the negatives, which are the other samples' keys of both views and the queue; u_i is the moving
    average of g_i.

    Args:
        size: Number of training samples, 1 or more.
        temperature: τ, above 0.
        gamma: Weight of the new g_i in the average, above 0 and below 1.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Yuan et al., Provable Stochastic Optimization for Global Contrastive Learning (2022), alg. 1.
    """

    EXAMPLE: ClassVar[dict[str, Any]] = {"size": 24}
    within_view = stops_gradient = True

    def __init__(
        self,
        size: int,
        temperature: float = 0.1,
        gamma: float = 0.9,
        *,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.temperature = positive("temperature", temperature)
        self.averages = MovingAverages(size, gamma)

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        cross = list(pairs.cross())
        blocks = [pairs.negatives(i, j, self.within_view) for i, j in cross]
        batch = torch.stack([log_mean_exp(each, self.temperature) for each in blocks])
        own = torch.stack([pairs.own_sim(i, j) for i, j in cross])
        log_u, counted = self.averages(pairs, batch), batch > EMPTY / 2
        ratio = (batch - log_u).exp()  # its gradient is ∇g / u
        values = self.temperature * (log_u + ratio - ratio.detach()) - own
        return values.where(counted, 0), counted.to(own.dtype)

    def after_step(self) -> None:
        """Commit the averages."""
        self.averages.commit()

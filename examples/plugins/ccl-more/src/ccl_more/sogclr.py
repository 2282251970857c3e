"""SogCLR: contrast with all samples there are, through a moving average for each."""

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
    """Global contrastive loss: what an anchor is contrasted with is a moving average of its own.

    ``τ log u_i - s_ii'`` with the gradient ``τ ∇g_i / u_i - ∇s_ii'``; u_i is the moving average of
    g_i, the mean of ``exp(s / τ)`` over the negatives, the other samples of both views and the queue.

    Args:
        size, gamma: As in `MovingAverages`.
        temperature: τ, above 0.
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
        own, u = torch.stack([pairs.own_sim(i, j) for i, j in cross]), self.averages(pairs, batch)
        share, found = (batch - u).exp(), batch > EMPTY / 2  # the share's gradient is ∇g / u
        values = self.temperature * (u + share - share.detach()) - own
        return values.where(found, 0), found.to(own.dtype)

    def after_step(self) -> None:
        """Commit the averages."""
        self.averages.commit()

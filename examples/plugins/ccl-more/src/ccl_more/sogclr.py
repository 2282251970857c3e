"""SogCLR: contrast with the whole data set, through a moving average for each sample."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import torch
from ccl_plugins.arguments import positive
from ccl_plugins.numerics import EMPTY
from ccl_plugins.objectives import ContrastiveObjective
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.moving_averages import MovingAverages, log_mean_exp

Blocks: TypeAlias = list[tuple[Tensor, Tensor]]
"""Inner products (n, ·) of anchors and negatives, and masks that are True at those that count."""


class SogCLR(ContrastiveObjective):
    """Global contrastive loss (SogCLR), with a moving average per sample in place of a large batch.

    ``τ log u_i - s_ii'`` with the gradient ``τ ∇g_i / u_i - ∇s_ii'``.  g_i is the mean of ``exp(s / τ)``
    over the negatives, which are the other samples' keys of both views and the queue; u_i is the moving
    average of g_i, averaged over views as in the paper.  Their code has one average for each view within
    a step, and stores the sum of both.

    Args:
        size: Number of training samples, 1 or more.
        temperature: τ, above 0.
        gamma: Weight of the new g_i in the average, above 0 and below 1.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Defaults:
        gamma: Paper: 0.9. Code: 0.9.

    Source:
        Yuan et al., Provable Stochastic Optimization for Global Contrastive Learning (2022), alg. 1.
    """

    EXAMPLE: ClassVar[dict[str, Any]] = {"size": 24}
    within_view = stops_gradient = True
    each_view = False
    """Whether each pair of views has a moving average of its own within a step."""

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
        self.averages = MovingAverages(size, gamma, self.each_view)

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        cross = list(pairs.cross())
        blocks = [pairs.negatives(i, j, self.within_view) for i, j in cross]
        own = torch.stack([pairs.own_sim(i, j) for i, j in cross])
        values, counted = self.contrast(pairs, blocks)
        return (values - own).where(counted, 0), counted.to(own.dtype)

    def contrast(self, pairs: Pairs, blocks: list[Blocks]) -> tuple[Tensor, Tensor]:
        """(rows, n) ``τ log u``, with the gradient ``τ ∇g / u``, and True at anchors with negatives."""
        batch = torch.stack([log_mean_exp(each, self.temperature) for each in blocks])
        log_u = self.averages(pairs, batch)
        return self.temperature * through(batch, log_u), batch > EMPTY / 2

    def after_step(self) -> None:
        """Commit the averages."""
        self.averages.commit()


def through(log_g: Tensor, log_u: Tensor) -> Tensor:
    """log u, with the gradient ``∇g / u``."""
    ratio = (log_g - log_u).exp()
    return log_u + ratio - ratio.detach()

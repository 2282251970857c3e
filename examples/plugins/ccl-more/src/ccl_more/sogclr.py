"""SogCLR: contrast with all samples there are, through a moving average for each."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from ccl_plugins.numerics import EMPTY, logsumexp_blocks, masked
from ccl_plugins.objectives import ContrastiveObjective
from ccl_plugins.pairs import Pairs
from ccl_plugins.ranges import positive
from torch import Tensor

from ccl_more.moving_averages import MovingAverages


class SogCLR(ContrastiveObjective):
    """Global contrastive loss: what an anchor is contrasted with is a moving average of its own.

    ``τ log u_i - s_ii'``, with the gradient ``τ ∇g_i / u_i - ∇s_ii'``; u_i is the moving average of
    g_i, the mean of ``exp(s / τ)`` over the negatives of both views.  Positive: another view's own
    key.  Negatives: the other samples' keys of both views, and the queue.  Without dataset indices,
    as in a call without ``index``, every sample is seen for the first time.

    Args:
        size: Number of training samples.
        temperature: τ, above 0.
        gamma: What a batch's g weighs in the average, above 0 and below 1.
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
        rows = []
        for i, j in pairs.cross():
            sims, keep = zip(*pairs.negatives(i, j, self.within_view), strict=True)
            logits = [masked(s / self.temperature, k) for s, k in zip(sims, keep, strict=True)]
            count = torch.stack([k.sum(1) for k in keep]).sum(0).clamp_min(1)
            rows.append((logsumexp_blocks(logits) - count.log(), pairs.own_sim(i, j)))
        logs, own = (torch.stack(parts) for parts in zip(*rows, strict=True))
        u = self.averages(pairs, logs.detach().logsumexp(0) - math.log(len(logs)))
        share, found = (logs - u).exp(), logs > EMPTY / 2  # the share's gradient is ∇g / u
        values = self.temperature * (u + share - share.detach()) - own
        return values.where(found, 0), found.to(own.dtype)

    def after_step(self) -> None:
        """Commit the averages."""
        self.averages.commit()

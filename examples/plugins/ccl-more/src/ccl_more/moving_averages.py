"""Moving averages by dataset index, in logarithms, committed after the step they are of."""

from __future__ import annotations

import math

import torch
from ccl_plugins.numerics import EMPTY, gather, logsumexp_blocks, masked
from ccl_plugins.pairs import Pairs
from torch import Tensor, nn


class MovingAverages(nn.Module):
    """``u_i ← (1 - γ) u_i + γ g_i``, g_i the mean over views; the first g_i is taken whole.

    Without dataset indices, as in a call without ``index``, every g_i is the first.

    Args:
        size: Number of training samples, 1 or more.
        gamma: γ, above 0 and below 1.
    """

    logs: Tensor
    pending: Tensor

    def __init__(self, size: int, gamma: float) -> None:
        super().__init__()
        if size < 1 or not 0 < gamma < 1:
            raise ValueError(
                f"size must be 1 or more and gamma between 0 and 1, not {size!r} and {gamma!r}"
            )
        self.gamma = gamma
        self.register_buffer("logs", torch.full((size,), torch.nan))
        self.register_buffer("pending", torch.full((size,), torch.nan), persistent=False)

    def forward(self, pairs: Pairs, batch: Tensor) -> Tensor:
        """(n,) log u of the anchors with the batch in it, to be committed: log g (rows, n)."""
        batch = batch.detach().logsumexp(0) - math.log(len(batch))
        if pairs.index is None:
            return batch
        old = self.logs[pairs.index[pairs.rows]].to(batch.dtype)
        new = torch.logaddexp(old + math.log1p(-self.gamma), batch + math.log(self.gamma))
        new = torch.where(old.isnan(), batch, new)
        known = new.masked_fill(batch <= EMPTY / 2, torch.nan)  # compared with nothing
        every = gather(known) if pairs.processes > 1 else known
        self.pending[pairs.index] = every.to(self.pending.dtype)
        return new

    def commit(self) -> None:
        """Take the averages of all batches since the last time."""
        self.logs.copy_(self.pending.where(~self.pending.isnan(), self.logs))
        self.pending.fill_(torch.nan)


def log_mean_exp(blocks: list[tuple[Tensor, Tensor]], temperature: float) -> Tensor:
    """(n,) logarithms of the mean of ``exp(s / τ)`` over blocks of products and of which count."""
    logits = [masked(sims / temperature, keep) for sims, keep in blocks]
    count = sum(keep.sum(1, dtype=sims.dtype) for sims, keep in blocks)
    return logsumexp_blocks(logits) - torch.as_tensor(count).clamp_min(1).log()

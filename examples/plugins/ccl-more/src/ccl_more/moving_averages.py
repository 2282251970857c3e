"""Moving averages by dataset index, as logarithms, updated after each optimizer step."""

from __future__ import annotations

import math

import torch
from ccl_plugins.numerics import EMPTY, gather, logsumexp_blocks, masked
from ccl_plugins.pairs import Pairs
from torch import Tensor, nn


class MovingAverages(nn.Module):
    """``u_i ← (1 - γ) u_i + γ g_i``, where g_i is averaged over views; the first ``u_i`` is ``g_i``.

    Without dataset indices, as in a call without ``index``, ``u_i`` is always ``g_i``.

    Args:
        size: Number of training samples, 1 or more.
        gamma: γ, above 0 and below 1.
        each_view: Whether each pair of views has an updated ``u_i`` of its own, from its own ``g_i``;
            the average of these is stored.
    """

    logs: Tensor
    pending: Tensor

    def __init__(self, size: int, gamma: float, each_view: bool = False) -> None:
        super().__init__()
        if size < 1 or not 0 < gamma < 1:
            raise ValueError(
                f"size must be 1 or more and gamma between 0 and 1, not {size!r} and {gamma!r}"
            )
        self.gamma = gamma
        self.each_view = each_view
        self.register_buffer("logs", torch.full((size,), torch.nan))
        self.register_buffer("pending", torch.full((size,), torch.nan), persistent=False)

    def forward(self, pairs: Pairs, batch: Tensor) -> Tensor:
        """Updated log u of the anchors, from log g (rows, n); `commit` stores their average.

        Returns:
            (n,), or (rows, n) with ``each_view``.
        """
        batch = batch.detach() if self.each_view else log_mean(batch.detach())
        if pairs.samples.index is None:
            return batch
        old = self.logs[pairs.samples.index[pairs.rows]].to(batch.dtype)
        new = torch.logaddexp(old + math.log1p(-self.gamma), batch + math.log(self.gamma))
        new = torch.where(old.isnan(), batch, new)
        seen = (batch > EMPTY / 2).reshape(-1, len(old)).any(0)
        hold(self.pending, pairs, log_mean(new.reshape(-1, len(old))).where(seen, torch.nan))
        return new

    def commit(self) -> None:
        """Store the averages of all batches since the last call."""
        commit(self.logs, self.pending)


def log_mean(logs: Tensor) -> Tensor:
    """(n,) logarithms of the means over rows of numbers whose logarithms are given, (rows, n)."""
    return logs.logsumexp(0) - math.log(len(logs))


def hold(pending: Tensor, pairs: Pairs, new: Tensor) -> None:
    """Keep new numbers of the anchors (n,), NaN where there is none, until `commit`."""
    every = gather(new) if pairs.processes > 1 else new
    pending[pairs.samples.index] = every.to(pending.dtype)


def commit(numbers: Tensor, pending: Tensor) -> None:
    """Put the new numbers of samples in the place of the old ones."""
    numbers.copy_(pending.where(~pending.isnan(), numbers))
    pending.fill_(torch.nan)


def log_mean_exp(blocks: list[tuple[Tensor, Tensor]], temperature: float | Tensor) -> Tensor:
    """(n,) logarithms of the mean of ``exp(s / τ)`` over blocks of inner products and their masks.

    The temperature is a number, or one for each anchor, (n, 1).
    """
    logits = [masked(sims / temperature, keep) for sims, keep in blocks]
    count = sum(keep.sum(1, dtype=sims.dtype) for sims, keep in blocks)
    return logsumexp_blocks(logits) - torch.as_tensor(count).clamp_min(1).log()

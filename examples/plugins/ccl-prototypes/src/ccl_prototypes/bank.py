"""A memory bank: an averaged embedding for each sample of the training set."""

from __future__ import annotations

import torch
from ccl_plugins.arguments import below_one
from ccl_plugins.numerics import gather, queue_logsumexp
from ccl_plugins.pairs import Pairs
from torch import Tensor, nn
from torch.nn.functional import normalize


class Bank(nn.Module):
    """``b_i ← m b_i + (1 - m) v_i`` on the unit sphere, where v_i is the mean of a sample's views.

    Averages wait in ``pending`` until `commit`, so that a loss changes no state.

    Args:
        samples: Number of training samples.
        dim: Width of the embeddings.
        momentum: m, from 0 to below 1.
    """

    entries: Tensor
    pending: Tensor

    def __init__(self, samples: int, dim: int, momentum: float) -> None:
        super().__init__()
        self.momentum = below_one("momentum of the bank", momentum)
        self.register_buffer("entries", normalize(torch.randn(samples, dim), dim=1))
        self.register_buffer("pending", torch.full((samples, dim), torch.nan), persistent=False)

    def forward(self, pairs: Pairs, temperature: float | Tensor) -> Tensor:
        """(u, n) minus the log-probability of the own entry among all, per view.

        Raises:
            ValueError: For pairs without dataset indices, and with masks or draws of a user.
        """
        if pairs.samples.index is None:
            raise ValueError("a bank has an entry for each dataset index: give index=... in a call")
        if any(given is not None for given in (pairs.positive, pairs.negative, pairs.draws)):
            raise ValueError("all entries of a bank are compared: it takes no masks or draws")
        entries = self.entries.to(pairs.anchors.dtype)
        own = (pairs.anchors * entries[pairs.samples.index[pairs.rows]]).sum(2) / temperature
        every = entries.new_ones(1, len(entries), dtype=torch.bool)
        (sums,) = queue_logsumexp(pairs.anchors / temperature, entries, lambda some: every[:, some])
        views = normalize(pairs.anchors.detach().mean(0), dim=1)
        views = gather(views) if pairs.processes > 1 else views
        self.pending[pairs.samples.index] = views.to(self.pending.dtype)
        return sums - own

    @torch.no_grad()
    def commit(self) -> None:
        """Average the views of all batches since the last call into their entries."""
        mixed = self.momentum * self.entries + (1 - self.momentum) * self.pending
        self.entries.copy_(normalize(mixed, dim=1).where(~self.pending.isnan(), self.entries))
        self.pending.fill_(torch.nan)

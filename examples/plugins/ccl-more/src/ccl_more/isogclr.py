"""iSogCLR: SogCLR with a temperature for each sample."""

from __future__ import annotations

import torch
from ccl_plugins.arguments import fraction, non_negative, positive
from ccl_plugins.numerics import EMPTY, masked
from ccl_plugins.pairs import Pairs
from torch import Tensor

from ccl_more.moving_averages import commit, hold, log_mean_exp
from ccl_more.sogclr import Blocks, SogCLR, through


class ISogCLR(SogCLR):
    """Robust global contrastive loss with a temperature for each sample (iSogCLR).

    ``τ_i log u_i + τ_i ρ - s_ii'`` with the gradient ``τ_i ∇g_i / u_i - ∇s_ii'``.  g_i is the mean of
    ``exp(s / τ_i)`` over the negatives, which are the other samples' keys of both views and the queue;
    u_i is the moving average of g_i.  After each step ``τ_i ← τ_i - η ν_i``, between two bounds, where
    ``ν_i ← (1 - β) ν_i + β (log u_i + ρ - (1 / u_i) mean( exp(s / τ_i) s / τ_i ))``, averaged over pairs
    of views: the gradient by τ_i.  Without dataset indices, temperatures stay as they are.

    As in the authors' code for images, each view has a u_i of its own, from the average of both of the
    step before, and exponents are s / τ and not (s - s_ii') / τ, which differs only where u is averaged
    over steps.  Their bound of the gradient by τ, 3, is left out.

    Args:
        size: Number of training samples, 1 or more.
        temperature: The first τ of every sample, between the two bounds.
        gamma: Weight of the new g_i in the average, above 0 and below 1.
        rho: ρ, 0 or more: the larger, the smaller temperatures become.
        rate: η, 0 or more.
        beta: β, above 0 and at most 1.
        lowest: The lower bound of temperatures, above 0.
        highest: The upper bound of temperatures.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Defaults:
        temperature: Code: 0.1. Here: the first temperature.
        gamma: Code: 0.8 (README).
        rho: Code: 0.4 (README); 6.
        rate: Code: 0.03 (README); 0.001.
        beta: Code: 0.5 (README); 0.9.
        lowest: Code: 0.05.
        highest: Code: 1.

    Source:
        Qiu et al., Not All Semantics Are Created Equal: Contrastive Self-Supervised Learning with
        Automatic Temperature Individualization (2023), alg. 1.
    """

    temperatures: Tensor
    each_view = True
    momenta: Tensor
    new_temperatures: Tensor
    new_momenta: Tensor

    def __init__(
        self,
        size: int,
        temperature: float = 0.1,
        gamma: float = 0.8,
        *,
        rho: float = 0.4,
        rate: float = 0.03,
        beta: float = 0.5,
        lowest: float = 0.05,
        highest: float = 1.0,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(size, temperature, gamma, gather_distributed=gather_distributed)
        self.rho, self.rate = non_negative("rho", rho), non_negative("rate", rate)
        self.beta, self.lowest, self.highest = fraction("beta", beta), lowest, highest
        if not 0 < positive("lowest", lowest) <= temperature <= highest:
            raise ValueError(
                f"temperature must be between lowest and highest, {lowest!r} and {highest!r}, not"
                f" {temperature!r}"
            )
        self.register_buffer("momenta", torch.zeros(size))
        for name in ("temperatures", "new_temperatures", "new_momenta"):
            unknown = torch.full((size,), torch.nan)  # a sample without one has ``temperature``
            self.register_buffer(name, unknown, persistent=name == "temperatures")

    def contrast(self, pairs: Pairs, blocks: list[Blocks]) -> tuple[Tensor, Tensor]:
        """(rows, n) ``τ (log u + ρ)``, with the gradient ``τ ∇g / u``, and True at anchors that count."""
        tau = torch.full_like(pairs.anchors[0, :, 0], self.temperature)
        if pairs.samples.index is not None:
            moved = self.temperatures[pairs.samples.index[pairs.rows]].to(tau.dtype)
            tau = moved.where(~moved.isnan(), tau)
        batch = torch.stack([log_mean_exp(each, tau[:, None]) for each in blocks])
        counted, log_u = batch > EMPTY / 2, self.averages(pairs, batch)
        if pairs.samples.index is not None:
            self._move(pairs, blocks, tau, batch.detach(), log_u)
        return tau * (through(batch, log_u) + self.rho), counted

    @torch.no_grad()
    def _move(
        self, pairs: Pairs, blocks: list[Blocks], tau: Tensor, batch: Tensor, log_u: Tensor
    ) -> None:
        """Hold the next temperatures of the anchors until `after_step`."""
        scores = torch.stack([mean_score(each, tau[:, None]) for each in blocks])
        slope = (log_u + self.rho - (batch - log_u).exp() * scores).mean(0)
        old = self.momenta[pairs.samples.index[pairs.rows]].to(tau.dtype)  # type: ignore[index]
        momentum = old + self.beta * (slope - old)
        empty = ~(batch > EMPTY / 2).any(0)
        moved = (tau - self.rate * momentum).clamp(self.lowest, self.highest)
        hold(self.new_momenta, pairs, momentum.masked_fill(empty, torch.nan))
        hold(self.new_temperatures, pairs, moved.masked_fill(empty, torch.nan))

    def after_step(self) -> None:
        """Commit the averages and the temperatures."""
        super().after_step()
        commit(self.momenta, self.new_momenta)
        commit(self.temperatures, self.new_temperatures)


def mean_score(blocks: Blocks, temperature: Tensor) -> Tensor:
    """(n,) means of ``s / τ`` of the negatives, weighted by ``exp(s / τ)``."""
    scores = torch.cat([sims for sims, _ in blocks], 1) / temperature
    keep = torch.cat([keep.expand_as(sims) for sims, keep in blocks], 1)
    return (masked(scores, keep).softmax(1) * scores).sum(1)

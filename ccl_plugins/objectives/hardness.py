"""What UCL, H-UCL, SCL, H-SCL and HCL share: a mean over negatives that may prefer the hard ones.

With ``g = s/τ``, all of them are ``log(1 + o E_q[e^g] / e^(g⁺))``.  They differ in which samples are
negatives, in how the distribution q weighs them, and in what is a positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import non_negative, positive
from ccl_plugins.numerics.logsumexp import logsumexp_blocks, masked
from ccl_plugins.objectives.base import ContrastiveObjective, Exclude
from ccl_plugins.objectives.scalars import (
    Number,
    Scalar,
    ScalarAttribute,
    is_zero,
    log,
    plus,
)
from ccl_plugins.pairs.pairs import Pairs

Blocks = Sequence[tuple[Tensor, Tensor]]
"""Inner products (n, ·) of anchors and keys, and which of them count."""


class HardnessObjective(ContrastiveObjective):
    """The state that the family shares; negatives are of equal weight unless ``harden`` is called.

    Args:
        temperature: τ, above 0.
        o: What the mean over negatives is multiplied with: ``"batch"``, the number of samples in the
            batch; ``"negatives"``, the number of other samples' keys, of any class; or a number.
        within_view: Whether the anchor's own view gives negatives too.
        exclude: Likely false negatives, as `ContrastiveObjective` takes them.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        ValueError: For a value out of range.
    """

    within_view = True
    temperature = ScalarAttribute(positive, learnable=True)
    o = ScalarAttribute(positive, words=("batch", "negatives"))
    beta = ScalarAttribute(non_negative)
    threshold = ScalarAttribute(positive, optional=True)

    def __init__(
        self,
        temperature: Scalar,
        *,
        o: Scalar | Literal["batch", "negatives"],
        within_view: bool,
        exclude: Exclude | None,
        gather_distributed: bool,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        self.temperature = temperature
        self.o = o
        self.within_view = within_view
        self.harden(0.0)

    def harden(
        self, beta: Scalar, threshold: Scalar | None = None, weight_gradient: bool = True
    ) -> None:
        """Weigh negatives by ``e^(βg)``, and leave those with ``e^g`` below the threshold out."""
        self.beta = beta
        self.threshold = threshold
        self.weight_gradient = weight_gradient

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 where no negative is left."""
        values, weights = [], []
        for i, j in pairs.cross():
            log_negatives, own, some = self.contrast(pairs, i, j)
            values.append(functional.softplus(log_negatives - own))
            weights.append(some)
        return torch.stack(values), torch.stack(weights)

    def contrast(
        self, pairs: Pairs, i: int, j: int, where: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What anchor view ``i`` is compared with beside its own keys of view ``j``.

        Args:
            pairs: All that is compared.
            i: Anchor view.
            j: Key view of the positive.
            where: (n, m + q), to have those samples alone as negatives; None: all others.

        Returns:
            (n,) ``log(o E_q[e^g])``, the own scores ``g⁺``, and 1 where there is a negative, else 0.
        """
        others = pairs.negatives(i, j, self.within_view)
        negatives = others if where is None else pairs.negatives(i, j, self.within_view, where)
        log_mean, some = self.log_mean(negatives)
        own = pairs.own_sim(i, j) / self.temperature
        return self.correct(log_mean, own) + self.log_o(pairs, others), own, some

    def correct(self, log_mean: Tensor, own: Tensor) -> Tensor:
        """(n,) ``log E_q[e^g]`` as it enters the loss, beside the own scores (n,)."""
        return log_mean

    def log_mean(self, negatives: Blocks) -> tuple[Tensor, Tensor]:
        """(n,) ``log E_q[e^g]``, and 1 where there is a negative, 0 where there is none."""
        if self.threshold is not None:
            bound = self.temperature * log(self.threshold)
            negatives = [(sims, keep & (sims.detach() >= bound)) for sims, keep in negatives]
        number = count(negatives)
        mean = log_expectation(negatives, number, self.temperature, self.beta, self.weight_gradient)
        return mean, number.clamp_max(1)

    def log_o(self, pairs: Pairs, others: Blocks) -> Number:
        """The log of ``o``, a number or (n,)."""
        if not isinstance(self.o, str):
            return log(self.o)
        if self.o == "batch":
            return math.log(pairs.keys.shape[1])
        return count(others).clamp_min(1).log()


def count(blocks: Blocks) -> Tensor:
    """(n,) how many entries count, in the dtype of the inner products."""
    number = torch.stack([keep.sum(1).expand(len(sims)) for sims, keep in blocks]).sum(0)
    return number.to(blocks[0][0].dtype)


def log_expectation(
    blocks: Blocks,
    number: Tensor,
    temperature: Number,
    beta: Number,
    weight_gradient: bool = True,
) -> Tensor:
    """``log E_q[e^g]`` with ``q ∝ e^(βg)`` over the entries that count, as ``LSE((1+β)g) - LSE(βg)``.

    Args:
        blocks: Inner products s = τg (n, ·), and which of them count.
        number: (n,) how many count; where none does, the result is finite and means nothing.
        temperature: τ, above 0.
        beta: β, 0 or more; at 0 one log-sum-exp is enough.
        weight_gradient: Whether the gradient flows through q too.
    """
    even = is_zero(beta)
    upper, lower = [], []
    for sims, keep in blocks:
        tilt = sims if weight_gradient else sims.detach()
        tilted = sims if even else plus(sims, beta, tilt)
        upper.append(masked(tilted / temperature, keep))
        if not even:
            lower.append(masked(tilt * (beta / temperature), keep))
    log_norm = number.clamp_min(1).log() if even else logsumexp_blocks(lower)
    return logsumexp_blocks(upper) - log_norm

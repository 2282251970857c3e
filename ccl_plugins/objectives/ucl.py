"""UCL, in which every other sample is a negative, and the base of H-UCL, HCL, SCL and H-SCL.

With ``g = s/τ``, all of them compute ``log(1 + o E_q[e^g] / e^(g⁺))``.  They differ in the samples that
are negatives, in the weights of the distribution q, and in the positives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import non_negative, positive
from ccl_plugins.numerics.logsumexp import log_tilted_mean, logsumexp_blocks, masked, softplus
from ccl_plugins.numerics.numbers import Number, is_zero, log, plus
from ccl_plugins.objectives.base import ContrastiveObjective, Exclude, stack_rows
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs

Blocks = Sequence[tuple[Tensor, Tensor]]
"""Inner products (n, ·) of anchors and keys, and masks that are True at those that count."""


class UCL(ContrastiveObjective):
    r"""NT-Xent with the mean over negatives times a chosen factor ``o`` (UCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, all of equal weight in the mean ``E_q``.  With
    ``o="negatives"`` it is NT-Xent itself.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \operatorname{mean}_{j \in \mathcal{N}_i} e^{s_{ij}} / e^{s_{ii}}
            \right)

    Shape:
        (b, d), (b, d) -> ()

    Args:
        o: The factor of the mean over negatives: ``"batch"``, the number of samples in the batch;
            ``"negatives"``, the number of the other samples' keys, of any class; or a number above 0.

    Args of subclasses:
        beta: β, 0 or more: negatives are weighted by ``e^(βg)``; 0: equal weights.
        threshold: Above 0: negatives with ``e^g`` below it are left out, and anchors without any other
            negative get weight 0; None: none are left out.
        weight_gradient: Whether the gradient flows through the weights too.

    Defaults:
        temperature: Code: 0.5.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eq. (29) with
        q of eq. (4); eqs. (9), (10) are ``o=1``; their code computes ``o="negatives"``.
    """

    within_view = True
    in_parts = True
    temperature = ScalarAttribute(positive, learnable=True)
    o = ScalarAttribute(positive, words=("batch", "negatives"))
    beta = ScalarAttribute(non_negative)
    threshold = ScalarAttribute(positive, optional=True)

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        o: Scalar | Literal["batch", "negatives"] = "batch",
        within_view: bool = True,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        self.temperature = temperature
        self.o = o
        self.within_view = within_view
        self.beta = 0.0
        self.threshold = None
        self.weight_gradient = True

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; weight 0 for anchors without negatives."""
        rows = []
        for i, j in pairs.cross():
            log_ratio, some = self.contrast(pairs, i, j)
            rows.append((softplus(log_ratio), some))
        return stack_rows(rows)

    def contrast(
        self, pairs: Pairs, i: int, j: int, where: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(n,) ``log(o E_q[e^g] / e^(g⁺))``, and 1 for anchors with a negative, else 0.

        The own keys are those of view ``j``; ``where`` (n, m + q) is True at the samples that may be
        negatives of anchor view ``i``; None: all.
        """
        others = pairs.negatives(i, j, self.within_view)
        negatives = others if where is None else pairs.negatives(i, j, self.within_view, where)
        if self.threshold is not None:
            bound = self.temperature * log(self.threshold)
            negatives = [(sims, keep & (sims.detach() >= bound)) for sims, keep in negatives]
        number = count(negatives)
        log_ratio = self.log_ratio(negatives, number, pairs.own_sim(i, j))
        return log_ratio + self.log_o(pairs, others), number.clamp_max(1)

    def log_ratio(self, negatives: Blocks, number: Tensor, own_sims: Tensor) -> Tensor:
        """(n,) ``log(E_q[e^g] / e^(g⁺))``, given the inner products (n,) with the own keys."""
        constant = own_sims.detach()
        own = (own_sims - constant) / self.temperature  # 0, with the gradient of the own products
        return self.log_mean(negatives, number, constant) - own

    def log_mean(self, negatives: Blocks, number: Tensor, constant: Tensor) -> Tensor:
        """(n,) ``log E_q[e^(g-c/τ)]`` with ``q ∝ e^(βg)``, as ``LSE((1+β)g) - LSE(βg) - c/τ``.

        Products are taken relative to the own ones, c, before they are divided by τ: where the mean is
        nearly that of the own key, its logarithm is then small, and so is its rounding.

        ``number`` (n,) is how many negatives count; for 0, the result is finite and meaningless.
        """
        temperature, beta = self.temperature, self.beta
        even = is_zero(beta)  # then one log-sum-exp is enough
        learned = any(isinstance(x, Tensor) and x.requires_grad for x in (temperature, beta))
        # Compiled, the operations below are one loop as well.
        if not even and not learned and not torch.compiler.is_compiling():
            return log_tilted_mean(negatives, temperature, beta, constant, self.weight_gradient)
        negatives = [(sims - constant[:, None], keep) for sims, keep in negatives]
        upper, lower = [], []
        for sims, keep in negatives:
            tilt = sims if self.weight_gradient else sims.detach()
            tilted = sims if even else plus(sims, beta, tilt)
            upper.append(masked(tilted / temperature, keep))
            if not even:
                lower.append(masked(tilt * (beta / temperature), keep))
        log_norm = number.clamp_min(1).log() if even else logsumexp_blocks(lower)
        return logsumexp_blocks(upper) - log_norm

    def log_o(self, pairs: Pairs, others: Blocks) -> Number:
        """The log of ``o``, a number or (n,)."""
        if not isinstance(self.o, str):
            return log(self.o)
        if self.o == "batch":
            samples = pairs.sample_count
            if isinstance(samples, int):
                return math.log(samples)
            return samples.clamp_min(1).to(pairs.anchors.dtype).log()
        return count(others).clamp_min(1).log()


def count(blocks: Blocks) -> Tensor:
    """(n,) the number of entries that count, in the dtype of the inner products."""
    number = torch.stack([keep.sum(1).expand(len(sims)) for sims, keep in blocks]).sum(0)
    return number.to(blocks[0][0].dtype)

"""HCL: every other sample is a negative, those near the anchor weigh more, and the mean is debiased."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.arguments import below_one
from ccl_plugins.numerics.numbers import Number, is_zero, log
from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.objectives.ucl import UCL, Blocks


class HCL(UCL):
    r"""Hard negatives by importance weights, debiased for false negatives (HCL).

    ``log(1 + N E / e^(g⁺))`` with ``g = s/τ`` and
    ``E = max((E_q[e^g] - τ⁺ e^(g⁺)) / (1 - τ⁺), e^(-1/τ))``.  Positive: the own other view.  Negatives:
    the other samples of both views and of the queue, N keys in all, weighted by ``e^(βg)`` in the mean
    ``E_q``, minus the share τ⁺ of the mean that false negatives have.  With ``tau_plus=0`` it is H-UCL
    with ``o="negatives"``.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + N E_i / e^{s_{ii}} \right)
        E_i = \max \left( \frac{\mathbb{E}_{q_i} [ e^{s_{ij}} ] - \tau^+ e^{s_{ii}}}{1 - \tau^+},
            e^{-1 / \tau} \right)
        q_i(j) = \operatorname{softmax}_{j \in \mathcal{N}_i} ( \beta s_{ij} )

    Shape:
        (b, d), (b, d) -> ()

    Args:
        tau_plus: τ⁺, from 0 to below 1: the probability that another sample is a false negative, that
            is, of the anchor's class.

    Defaults:
        temperature: Paper: 0.5. Code: 0.5.
        beta: Paper: 1. Code: 1.
        tau_plus: Paper: 0.1. Code: 0.1.

    Source:
        Robinson et al., Contrastive Learning with Hard Negative Samples (2021), the debiased
        objective; the lower bound ``e^(-1/τ)`` is from their code.
    """

    tau_plus = ScalarAttribute(below_one)

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        beta: Scalar = 1.0,
        tau_plus: Scalar = 0.1,
        weight_gradient: bool = True,
        within_view: bool = True,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, exclude=exclude, gather_distributed=gather_distributed)
        self.o = "negatives"
        self.within_view = within_view
        self.beta = beta
        self.tau_plus = tau_plus
        self.weight_gradient = weight_gradient

    def log_ratio(self, negatives: Blocks, number: Tensor, own_sims: Tensor) -> Tensor:
        """(n,) the log of the debiased mean, at least the smallest mean of ``e^g``, over ``e^(g⁺)``."""
        constant = own_sims.detach()
        own = (own_sims - constant) / self.temperature  # 0, with the gradient of the own scores
        floor = (-1 - constant) / self.temperature
        return debias(self.log_mean(negatives, number, constant), own, self.tau_plus, floor) - own


def debias(log_mean: Tensor, own: Tensor, tau_plus: Number, floor: Number) -> Tensor:
    """``log max((e^log_mean - τ⁺ e^own) / (1 - τ⁺), e^floor)``; no gradient where it is the floor."""
    if is_zero(tau_plus):
        return log_mean
    share = own + log(tau_plus) - log_mean
    # Where the log of 1 - e^share is undefined, its gradient would be NaN: compute it at -1 there.
    rest = (-torch.expm1(share.masked_fill(share >= 0, -1))).log()
    debiased = log_mean + rest - log(1 - tau_plus)
    return torch.where((share < 0) & (debiased > floor), debiased, floor)

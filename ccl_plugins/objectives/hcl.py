"""HCL: hard negatives, corrected for those that are of the anchor's class."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.arguments import below_one
from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.hardness import HardnessObjective
from ccl_plugins.objectives.scalars import Number, Scalar, ScalarAttribute, is_zero, log


class HCL(HardnessObjective):
    """HCL: H-UCL whose mean over negatives is debiased.

    ``log(1 + N E / e^(g⁺))`` with ``g = s/τ`` and
    ``E = max((E_q[e^g] - τ⁺ e^(g⁺)) / (1 - τ⁺), e^(-1/τ))``.  Positive: the own other view.  Negatives:
    the N other samples' keys of both views and of the queue, weighted by ``e^(βg)``, so that those
    near the anchor count most in the mean ``E_q``, less the share τ⁺ of it that positives in disguise
    would have.

    More than two views are compared two by two.

    Shape:
        (b, d), (b, d) -> ()

    Args:
        temperature: τ, above 0.
        beta: β, 0 or more: how much harder negatives count more.
        tau_plus: τ⁺, from 0 to below 1: the chance that another sample is of the anchor's class; 0
            corrects nothing, and is H-UCL with ``o="negatives"``.
        weight_gradient: Whether the gradient flows through the weights too.
        within_view: Whether the anchor's own view gives negatives too.
        exclude: Likely false negatives, ``(kernel, threshold)`` or with the name of a condition as
            third: other samples at least that alike are no negatives.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Robinson et al., Contrastive Learning with Hard Negative Samples (2021), the debiased
        objective; the floor ``e^(-1/τ)`` is their code's.
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
        super().__init__(
            temperature,
            o="negatives",
            within_view=within_view,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.harden(beta, weight_gradient=weight_gradient)
        self.tau_plus = tau_plus

    def correct(self, log_mean: Tensor, own: Tensor) -> Tensor:
        """(n,) the debiased mean's log, not below the least that a mean of ``e^g`` can be."""
        return debias(log_mean, own, self.tau_plus, -1 / self.temperature)


def debias(log_mean: Tensor, own: Tensor, tau_plus: Number, floor: Number) -> Tensor:
    """``log max((e^log_mean - τ⁺ e^own) / (1 - τ⁺), e^floor)``; no gradient where the floor holds."""
    if is_zero(tau_plus):
        return log_mean
    share = own + log(tau_plus) - log_mean
    # The log of 1 - e^share, away from where it is undefined: there its gradient would be NaN.
    rest = (-torch.expm1(share.masked_fill(share >= 0, -1))).log()
    debiased = log_mean + rest - log(1 - tau_plus)
    return torch.where((share < 0) & (debiased > floor), debiased, floor)

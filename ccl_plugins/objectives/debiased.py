"""Debiased contrastive loss: the mean over negatives is corrected for false negatives."""

from __future__ import annotations

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.hcl import HCL
from ccl_plugins.objectives.scalars import Scalar


class Debiased(HCL):
    r"""Debiased contrastive loss: negatives of equal weight, corrected for false negatives.

    ``log(1 + N E / e^(g⁺))`` with ``g = s/τ`` and
    ``E = max((mean e^g - τ⁺ e^(g⁺)) / (1 - τ⁺), e^(-1/τ))``.  Positive: the own other view.  Negatives:
    the other samples of both views and of the queue, N keys in all, of equal weight in the mean, minus
    the share τ⁺ of the mean that false negatives have.  It is HCL with ``beta=0``, and NT-Xent with
    ``tau_plus=0``.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + N E_i / e^{s_{ii}} \right)
        E_i = \max \left( \frac{\operatorname{mean}_{j \in \mathcal{N}_i} e^{s_{ij}} - \tau^+
            e^{s_{ii}}}{1 - \tau^+}, e^{-1 / \tau} \right)

    Shape:
        (b, d), (b, d) -> ()

    Defaults:
        temperature: Paper: 0.5. Code: 0.5.
        tau_plus: Paper: 0.1. Code: 0.1.

    Source:
        Chuang et al., Debiased Contrastive Learning (2020): the debiased loss with
        one positive for the estimate, M = 1, and their lower bound ``e^(-1/τ)``.
    """

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        tau_plus: Scalar = 0.1,
        within_view: bool = True,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            beta=0.0,
            tau_plus=tau_plus,
            within_view=within_view,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )

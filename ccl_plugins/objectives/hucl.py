"""H-UCL: every other sample is a negative, and those near the anchor weigh more."""

from __future__ import annotations

from typing import Literal

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.objectives.ucl import UCL


class HUCL(UCL):
    r"""NT-Xent with hard negatives by importance weights (H-UCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, weighted by ``e^(βg)`` in the mean ``E_q``.  With
    ``beta=0`` it is UCL.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \, \mathbb{E}_{q_i} [ e^{s_{ij}} ] / e^{s_{ii}} \right)
        q_i(j) = \operatorname{softmax}_{j \in \mathcal{N}_i} ( \beta s_{ij} )

    Shape:
        (b, d), (b, d) -> ()

    Defaults:
        temperature: Code: 0.5.
        beta: Paper: 0.1 to 5. Code: 1.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eqs. (28),
        (29); eqs. (5), (9), (11) are ``beta=0, o=1`` with a threshold; their code computes
        ``o="negatives"``.
    """

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        beta: Scalar = 1.0,
        threshold: Scalar | None = None,
        weight_gradient: bool = True,
        o: Scalar | Literal["batch", "negatives"] = "batch",
        within_view: bool = True,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, exclude=exclude, gather_distributed=gather_distributed)
        self.o = o
        self.within_view = within_view
        self.beta = beta
        self.threshold = threshold
        self.weight_gradient = weight_gradient

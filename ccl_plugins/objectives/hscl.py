"""H-SCL: only samples of other classes are negatives, and those near the anchor weigh more."""

from __future__ import annotations

from typing import Literal

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.objectives.scl import SCL


class HSCL(SCL):
    r"""Supervised contrast with hard negatives of other classes, by importance weights (H-SCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view, or, each in a
    separate term, all keys of the anchor's class.  Negatives: the samples of other classes of both
    views and of the queue, weighted by ``e^(βg)`` in the mean ``E_q``.  With ``beta=0`` it is SCL.
    Anchors without negatives get weight 0.

    More than two views are compared two by two.

    Equation:
        \ell_i = \log \left( 1 + o \, \mathbb{E}_{q_i} [ e^{s_{ij}} ] / e^{s_{ii}} \right)
        q_i(j) = \operatorname{softmax}_{j \in \mathcal{N}_i} ( \beta s_{ij} ), \quad \mathcal{N}_i
            = \{ j : z_j \neq z_i \}

    Shape:
        (b, d), (b, d), condition (b,) -> ()

    Defaults:
        temperature: Code: 0.5.
        beta: Paper: 0.1 to 5. Code: 1.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eqs. (27),
        (29); eqs. (9), (14), (15) are ``beta=0, o=1`` with a threshold.  Their training code computes
        ``o="negatives", positives="all"``, their code for figure 4 ``o="negatives",
        weight_gradient=False``.
    """

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
        beta: Scalar = 1.0,
        threshold: Scalar | None = None,
        weight_gradient: bool = True,
        positives: Literal["one", "all"] = "one",
        average: Literal["pairs", "anchors"] = "pairs",
        o: Scalar | Literal["batch", "negatives"] = "batch",
        within_view: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            positives=positives,
            average=average,
            o=o,
            within_view=within_view,
            on=on,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.beta = beta
        self.threshold = threshold
        self.weight_gradient = weight_gradient

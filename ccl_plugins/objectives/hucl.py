"""H-UCL: every other sample is a negative, and those near the anchor count more."""

from __future__ import annotations

from typing import Literal

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.hardness import HardnessObjective
from ccl_plugins.objectives.scalars import Scalar


class HUCL(HardnessObjective):
    """UCL with hard negatives.

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, weighted by ``e^(βg)``, so that those near the
    anchor count most in the mean ``E_q``.

    More than two views are compared two by two.

    Shape:
        (b, d), (b, d) -> ()

    Args:
        temperature: τ, above 0.
        beta: β, 0 or more: how much harder negatives count more; 0 is UCL.
        threshold: Above 0: negatives with ``e^g`` below it are left out, and an anchor that has none
            left has weight 0; None leaves none out.
        weight_gradient: Whether the gradient flows through the weights too.
        o: What the mean over negatives is multiplied with: ``"batch"``, the number of samples in the
            batch; ``"negatives"``, the number of other samples' keys; or a number above 0.
        within_view: Whether the anchor's own view gives negatives too.
        exclude: Likely false negatives, ``(kernel, threshold)`` or with the name of a condition as
            third: other samples at least that alike are no negatives.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

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
        super().__init__(
            temperature,
            o=o,
            within_view=within_view,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.harden(beta, threshold, weight_gradient)

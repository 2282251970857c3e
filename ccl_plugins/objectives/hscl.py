"""H-SCL: the samples of other classes are negatives, and those near the anchor count more."""

from __future__ import annotations

from typing import Literal

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.scalars import Scalar
from ccl_plugins.objectives.scl import SCL


class HSCL(SCL):
    """SCL with hard negatives.

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view, or, each with a
    term of its own, all keys of the anchor's class.  Negatives: the samples of other classes of both
    views and of the queue, weighted by ``e^(βg)``, so that those near the anchor count most in the
    mean ``E_q``.  Anchors without a negative are left out.

    More than two views are compared two by two.

    Shape:
        (b, d), (b, d), condition (b,) -> ()

    Args:
        temperature: τ, above 0.
        beta: β, 0 or more: how much harder negatives count more; 0 is SCL.
        threshold: Above 0: negatives with ``e^g`` below it are left out, and an anchor that has none
            left has weight 0; None leaves none out.
        weight_gradient: Whether the gradient flows through the weights too.
        positives: ``"one"``: the own other view; ``"all"``: every key of the anchor's class.
        average: With all positives, whether every pair counts alike, ``"pairs"``, so that anchors of
            larger classes count more, or every anchor, ``"anchors"``.
        o: What the mean over negatives is multiplied with: ``"batch"``, the number of samples in the
            batch; ``"negatives"``, the number of other samples' keys, of any class; or a number.
        within_view: Whether keys of the anchor's own view are compared with it too.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)`` or with the name of a condition as
            third: other samples at least that alike are no negatives.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

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
        self.harden(beta, threshold, weight_gradient)

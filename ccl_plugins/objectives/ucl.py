"""UCL: every other sample is a negative."""

from __future__ import annotations

from typing import Literal

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.hardness import HardnessObjective
from ccl_plugins.objectives.scalars import Scalar


class UCL(HardnessObjective):
    """UCL, which is NT-Xent up to one number: ``o = "negatives"`` is NT-Xent itself.

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, all of equal weight in the mean ``E_q``.

    More than two views are compared two by two.

    Shape:
        (b, d), (b, d) -> ()

    Args:
        temperature: τ, above 0.
        o: What the mean over negatives is multiplied with: ``"batch"``, the number of samples in the
            batch; ``"negatives"``, the number of negatives; or a number above 0.
        within_view: Whether the anchor's own view gives negatives too.
        exclude: Likely false negatives, ``(kernel, threshold)`` or with the name of a condition as
            third: other samples at least that alike are no negatives.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eq. (29) with
        q of eq. (4); eqs. (9), (10) are ``o=1``; their code computes ``o="negatives"``.
    """

    def __init__(
        self,
        temperature: Scalar = 0.5,
        *,
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

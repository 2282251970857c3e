"""UCL: every other sample is a negative."""

from __future__ import annotations

from ccl_plugins.objectives.hardness import HardnessObjective


class UCL(HardnessObjective):
    """NT-Xent with the mean over negatives times a chosen factor ``o`` (UCL).

    ``log(1 + o E_q[e^g] / e^(g⁺))`` with ``g = s/τ``.  Positive: the own other view.  Negatives: the
    other samples of both views and of the queue, all of equal weight in the mean ``E_q``.  With
    ``o="negatives"`` it is NT-Xent itself.

    More than two views are compared two by two.

    Shape:
        (b, d), (b, d) -> ()

    Source:
        Jiang et al., Supervised Contrastive Learning with Hard Negative Samples (2022), eq. (29) with
        q of eq. (4); eqs. (9), (10) are ``o=1``; their code computes ``o="negatives"``.
    """

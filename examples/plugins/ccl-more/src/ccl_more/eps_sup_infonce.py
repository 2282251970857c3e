"""Epsilon-SupInfoNCE: every positive is closer than every negative by a margin."""

from __future__ import annotations

from ccl_plugins.arguments import non_negative
from ccl_plugins.objectives import Exclude, Scalar, ScalarAttribute, SupCon
from torch import Tensor


class EpsSupInfoNCE(SupCon):
    """Supervised InfoNCE with a margin between each positive and all negatives (epsilon-SupInfoNCE).

    ``-(1 / |P|) Σ_{p in P} log( e_p / (e_p exp(-ε) + Σ_{a in N} e_a) )``.  Positives P: the
    anchor's other views, and all views of the other samples of its class.  Negatives N: all views of
    the other classes.  Anchors without positives get weight 0.  With ε = 0 it is SINCERE,
    ``supcon`` with ``denominator = "negatives"``.

    As in the authors' code, and not in the paper: positives are averaged and not summed, and ε is
    subtracted after division by the temperature.

    Args:
        epsilon: The margin ε, 0 or more.

    Source:
        Barbano et al., Unbiased Supervised Contrastive Learning (2023), ε-SupInfoNCE.
    """

    epsilon = ScalarAttribute(non_negative)

    def __init__(
        self,
        temperature: Scalar = 0.1,
        epsilon: Scalar = 0.25,
        *,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            denominator="negatives",
            on=on,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.epsilon = epsilon

    @property
    def margin(self) -> float | Tensor:
        """ε."""
        return self.epsilon

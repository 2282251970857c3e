"""Cl-InfoNCE: positives from the anchor's cluster."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of, positive
from ccl_plugins.numerics.logsumexp import logsumexp_blocks, masked
from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.scalars import Learned, Scalar, ScalarAttribute
from ccl_plugins.objectives.supcon import SupCon
from ccl_plugins.pairs.pairs import Pairs


class ClInfoNCE(SupCon):
    """Clustering InfoNCE: the samples of a cluster attract each other.

    Positives: the own other views, and all views of the other samples of the anchor's cluster, of
    batch and queue; of equal weight, averaged outside the log.  Negatives: all that is left but the
    anchor itself; the denominator has positives and negatives.  Clusters of one image make it NT-Xent,
    labels make it SupCon.

    Eq. (1) is an expectation over pairs drawn from one cluster.  In a batch it is estimated by all of
    them, in every view, up to the constant log n.  Where pairs have ``draws``, it is computed as
    printed: the own key, a partner's, over the mean of the drawn keys.

    Shape:
        (b, d), (b, d), condition (b,) of cluster ids -> ()

    Args:
        temperature: τ, above 0.
        form: ``"paper"``; or ``"released"``, with a ``base_temperature`` of 0.07.
        base_temperature: Multiplies the loss by τ / base_temperature; None, no factor.
        on: The name of the condition that is read.
        exclude: Likely false negatives, ``(kernel, threshold)``, as in `ContrastiveObjective`.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), eq. (1).
    """

    base_temperature = ScalarAttribute(positive, optional=True)

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        form: Literal["paper", "released"] = "paper",
        base_temperature: Scalar | None = None,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.form = one_of("form", form, ("paper", "released"))
        if base_temperature is None and form == "released":
            base_temperature = 0.07
        self.base_temperature = base_temperature
        if base_temperature is not None and isinstance(self._temperature, Learned):
            raise ValueError(
                "a temperature that is learned would also be the factor τ / base_temperature, which"
                " falls as it does: give a number or a schedule"
            )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor, over all views at once; with draws, per pair of views.

        An anchor of which no draw is left, all being excluded, has weight 0.
        """
        values, weights = super().terms(pairs) if pairs.draws is None else self._printed(pairs)
        if self.base_temperature is not None:
            values = values * (self.temperature / self.base_temperature)
        return values, weights

    def _printed(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        values, weights = [], []
        for i, j in pairs.cross():
            blocks = pairs.negatives(i, j, within_view=False)
            logits = [masked(sims / self.temperature, keep) for sims, keep in blocks]
            own, number = pairs.own_sim(i, j) / self.temperature, blocks[0][1].sum(1)
            value = logsumexp_blocks(logits) - number.clamp_min(1).to(own.dtype).log() - own
            values.append(torch.where(number > 0, value, 0))
            weights.append((number > 0).to(own.dtype))
        return torch.stack(values), torch.stack(weights)

"""Cl-InfoNCE: all samples of the anchor's cluster are positives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import positive, word
from ccl_plugins.numerics.logsumexp import logsumexp_blocks, masked
from ccl_plugins.objectives.base import stack_rows
from ccl_plugins.objectives.scalars import Learned, Scalar, ScalarAttribute
from ccl_plugins.objectives.supcon import SupCon
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False, kw_only=True)
class ClInfoNCE(SupCon):
    r"""Supervised contrastive loss on clusters: every sample of the cluster is a positive (Cl-InfoNCE).

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_a e_a )``.  Positives: the own other views, and all views of
    the other samples of the anchor's cluster, of batch and queue; of equal weight, averaged outside the
    log.  Negatives: all other keys; the denominator has positives and negatives.  With clusters of one
    image it is NT-Xent, with labels it is SupCon.

    Eq. (1) is an expectation over pairs drawn from one cluster.  In a batch it is estimated by all such
    pairs, in every view, up to the constant log n.  If pairs have ``draws``, it is computed as printed:
    the own key, which is the partner's, over the mean of the drawn keys.

    Equation:
        \ell_i = -\frac{1}{|\mathcal{P}_i|} \sum_{p \in \mathcal{P}_i} \log
            \frac{e^{s_{ip}}}{\sum_{a \in \mathcal{A}_i} e^{s_{ia}}}
        \mathcal{P}_i = \{ p \in \mathcal{A}_i : z_p = z_i \}

    Shape:
        (b, d), (b, d), condition (b,) of cluster ids -> ()

    Args:
        form: ``"paper"``; or ``"released"``, with a ``base_temperature`` of 0.07.
        base_temperature: The loss is multiplied by τ / base_temperature; None: no factor.

    Defaults:
        temperature: Code: 0.1 and 0.2 in scripts.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), eq. (1).
    """

    denominator: Literal["all"] = field(default="all", init=False)
    form: Literal["paper", "released"] = word("paper", "released")
    base_temperature: Scalar | None = ScalarAttribute(positive, default=None)

    def __post_init__(self) -> None:
        """Give the released form its factor, and refuse one that a learned temperature would lower."""
        super().__post_init__()
        if self.base_temperature is None and self.form == "released":
            self.base_temperature = 0.07
        if self.base_temperature is not None and isinstance(self._temperature, Learned):
            raise ValueError(
                "a learned temperature would fall to lower the factor τ / base_temperature: give"
                " temperature a number or a schedule"
            )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor, over all views at once; with draws, per pair of views.

        Anchors whose draws are all excluded get weight 0.
        """
        values, weights = super().terms(pairs) if pairs.draws is None else self._printed(pairs)
        if self.base_temperature is not None:
            values = values * (self.temperature / self.base_temperature)
        return values, weights

    def _printed(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        rows = []
        for i, j in pairs.cross():
            blocks = pairs.negatives(i, j, within_view=False)
            logits = [masked(sims / self.temperature, keep) for sims, keep in blocks]
            own, number = pairs.own_sim(i, j) / self.temperature, blocks[0][1].sum(1)
            value = logsumexp_blocks(logits) - number.clamp_min(1).to(own.dtype).log() - own
            rows.append((torch.where(number > 0, value, 0), (number > 0).to(own.dtype)))
        return stack_rows(rows)

"""CMC: contrastive multiview coding, InfoNCE between every two views."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from torch import Tensor

from ccl_plugins.arguments import positive, word
from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class CMC(InfoNCE):
    r"""Contrastive multiview coding: InfoNCE between every two views, in both directions (CMC).

    ``Σ_{v ≠ w} -log( e_ii / Σ_j e_ij )``.  Positive: the own sample's other view.  Negatives: the other
    samples' keys of that view, and the queue; all of equal weight.  A view may be anything embedded in
    the same space: another augmentation, another modality, an encoder of attributes.

    Equation:
        \sum_{v \neq w} \operatorname{mean}_i -\log \frac{e^{s_{ii}^{vw}}}{\sum_j e^{s_{ij}^{vw}}}

    Args:
        graph: The views that are compared: ``"full"``: every two; ``"core"``: the first with each
            other view.
        reduction: ``"sum"`` over the ordered pairs of views, or their ``"mean"``.

    Defaults:
        temperature: Paper: 0.07. Code: 0.07.

    Source:
        Tian et al., Contrastive Multiview Coding (2020), eqs. (7) and (8).
    """

    temperature: Scalar = ScalarAttribute(positive, default=0.07, learnable=True)
    _: KW_ONLY
    within_view: bool = field(default=False, init=False)
    symmetric: bool = field(default=True, init=False)
    graph: Literal["full", "core"] = word("full", "core")
    reduction: Literal["sum", "mean"] = word("sum", "mean")

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Minus the log-probability of the own key, per ordered pair of views."""
        values, weights = super().terms(pairs)
        return values * len(values) if self.reduction == "sum" else values, weights

    def compared(self, pairs: Pairs) -> list[tuple[int, int]]:
        """Every two views, or the first with each other view."""
        first, cross = min(pairs.anchor_views + pairs.key_views), super().compared(pairs)
        if self.graph == "full":
            return cross
        return [(i, j) for i, j in cross if first in (pairs.anchor_views[i], pairs.key_views[j])]

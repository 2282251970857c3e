"""Alignment and uniformity: the two properties that a contrastive loss rewards, as two terms."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import non_negative, positive
from ccl_plugins.numerics.logsumexp import logsumexp_blocks, masked
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.cacr import other_queries, query_products, with_queue
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class AlignUniform(ContrastiveObjective):
    r"""Alignment of a sample's views and uniformity of all samples on the sphere.

    ``mean d^α + log mean exp(-t d²)``.  Positives: the own sample's keys of the other views, of equal
    weight.  Negatives: the unordered pairs of different samples within a view, and of a sample with the
    queue, all of equal weight inside the log of their mean.

    Equation:
        a \operatorname{mean}_i \lVert x_i - y_i \rVert^{\alpha} + u \log \operatorname{mean}_{i <
            j} e^{-t \lVert x_i - x_j \rVert^2}

    Args:
        power: α of the alignment, above 0.
        precision: t of the uniformity, above 0.
        align_weight: Factor of the alignment, 0 or more.
        uniform_weight: Factor of the uniformity, 0 or more.

    Defaults:
        power: Paper: 2. Code: 2.
        precision: Paper: 2. Code: 2.
        align_weight: Here: equal terms.
        uniform_weight: Here: equal terms.

    Source:
        Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere (2020); AU-CL in Zheng et al. (2023).
    """

    within_view = True
    distributed: Literal["mean", "replicated"] = field(default="replicated", init=False)

    power: Scalar = ScalarAttribute(positive, default=2.0)
    precision: Scalar = ScalarAttribute(positive, default=2.0)
    _: KW_ONLY
    align_weight: Scalar = ScalarAttribute(non_negative, default=1.0)
    uniform_weight: Scalar = ScalarAttribute(non_negative, default=1.0)

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per sample: its alignment, and the uniformity of all samples."""
        both = pairs.keys is not pairs.anchors  # in a batch, a pair and its reverse are equally far
        aligned = torch.stack([self._alignment(pairs, i, j) for i, j in pairs.cross(both)]).mean(0)
        views = range(len(pairs.anchors))
        uniform = torch.stack([self._uniformity(pairs, i) for i in views]).mean(0)
        values = self.align_weight * aligned + self.uniform_weight * uniform
        return values[None], torch.ones_like(values[None])

    def _alignment(self, pairs: Pairs, i: int, j: int) -> Tensor:
        """(n,) distances of anchor and own key to the power of α."""
        square = (pairs.anchors[i] - pairs.keys[j, pairs.rows]).square().sum(1)
        # Powers below 1 have an infinite slope at 0, where two views coincide: keep away from it.
        return square.clamp_min(torch.finfo(square.dtype).tiny) ** (self.power / 2)

    def _uniformity(self, pairs: Pairs, i: int) -> Tensor:
        """The log of the mean kernel value of different samples, a scalar."""
        keep = other_queries(pairs)
        if pairs.draws is None:
            keep = keep & keep.T.triu()
        blocks = with_queue(pairs, i, query_products(pairs, i), keep)
        logits = [masked((2 * self.precision) * products, keep) for products, keep in blocks]
        count = torch.stack([keep.sum(dtype=logits[0].dtype) for _, keep in blocks]).sum()
        mean = logsumexp_blocks(logits).logsumexp(0) - count.clamp_min(1).log()
        # exp(-t d²) = exp(2t s - 2t)
        return torch.where(count > 0, mean - 2 * self.precision, torch.zeros_like(mean))

"""CACR for MoCo v3: the loss of the released ImageNet code, which is not in the paper."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import positive, word
from ccl_plugins.numerics.logsumexp import softplus
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.cacr import (
    expected_repulsion,
    positive_weights,
    squared_distances,
)
from ccl_plugins.objectives.infonce import negatives
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class CACRMoCoV3(ContrastiveObjective):
    r"""Attraction and repulsion with one weight per positive: CACR in the released MoCo v3 code.

    Positives of a key: its sample's embeddings in the other views, weighted by
    ``π⁺ = softmax(d²/τ)``: the farthest weighs most.  Negatives of a positive: the keys of the other
    samples, equal in the log of the RBF cost, weighted by ``π⁻ = softmax(-d²/2τ)`` in the Euclidean
    cost.  No weight carries gradient, and π⁺ multiplies both attraction and repulsion.

    Equation:
        \ell_i = \sum_v \pi^+_{iv} \left( \lVert x_i^v - y_i \rVert^2 + 2 \tau \log \sum_j e^{-\lVert
            x_i^v - y_j \rVert^2 / (2 \tau)} \right)
        \pi^+_{iv} = \operatorname{softmax}_v ( \lVert x_i^v - y_i \rVert^2 / \tau )

    Args:
        temperature: τ, above 0; it sets t⁺ = 1/τ and t⁻ = t = 1/2τ.
        cost: ``"rbf"``: ``d² + 1/t ln Σ_j exp(-t d²_j)``, own key included, which is 2τ times InfoNCE;
            ``"euclidean"``: half squared distances, and, as released, the sum over each process's batch
            instead of the mean.

    Defaults:
        temperature: Code: 1; 0.2 for ViT.

    Source:
        The code released with Zheng et al., Contrastive Attraction and Contrastive Repulsion for
        Representation Learning (2023); ``cacr`` is the paper's equation.
    """

    # Not learnable: the loss grows with the temperature.

    temperature: Scalar = ScalarAttribute(positive, default=1.0)
    _: KW_ONLY
    cost: Literal["rbf", "euclidean"] = word("rbf", "euclidean")

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One row per key view, summed over the views that the keys are compared with."""
        rows = []
        for j in range(len(pairs.keys)):
            views = [i for i, key in pairs.cross() if key == j]
            if not views:
                continue
            own_products = torch.stack([pairs.own_sim(i, j) for i in views])
            d_plus = squared_distances(own_products)
            pi_plus = positive_weights(d_plus.detach(), 1 / self.temperature)
            cost = self._rbf if self.cost == "rbf" else self._euclidean
            costs = torch.stack([cost(pairs, i, j) for i in views])
            rows.append((pi_plus * costs).sum(0))
        values = torch.stack(rows)
        return values, torch.ones_like(values)

    def _rbf(self, pairs: Pairs, i: int, j: int) -> Tensor:
        """(n,) ``d⁺ + 2τ log Σ_j e^(-d_j / 2τ) = 2τ log(1 + Σ_{j≠i} e^(s_j) / e^(s_i))``."""
        log_sum, _ = negatives(pairs, i, j, self.temperature)
        own = pairs.own_sim(i, j) / self.temperature
        return 2 * self.temperature * softplus(log_sum - own)

    def _euclidean(self, pairs: Pairs, i: int, j: int) -> Tensor:
        """(n,) ``(d⁺ - E_π⁻[ d⁻ ]) / 2`` times the number of samples, as released."""
        blocks = pairs.negatives(i, j, within_view=False)
        products = torch.cat([block for block, _ in blocks], 1)
        keep = torch.cat([keep.expand_as(block) for block, keep in blocks], 1)
        repulsion = expected_repulsion(products, keep, 1 / (2 * self.temperature), attached=0)
        d_plus = squared_distances(pairs.own_sim(i, j))
        missing = pairs.samples.missing
        n = len(d_plus) if missing is None else (~missing[pairs.rows]).sum()
        return (d_plus + repulsion) / 2 * n

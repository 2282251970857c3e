"""SigLIP: each pair is classified separately."""

from __future__ import annotations

import math

import torch
from ccl_plugins.arguments import finite, positive
from ccl_plugins.objectives import ContrastiveObjective
from ccl_plugins.pairs import Pairs
from torch import Tensor, nn
from torch.nn.functional import softplus


class SigLIP(ContrastiveObjective):
    """Sigmoid loss (SigLIP), which classifies each pair of embeddings as of one sample or of two.

    ``-Σ_j log σ( y_ij (t s_ij + b) )``, where y is 1 for the own key and -1 for other keys, and the
    scale t and the bias b are learned.  Positive: the own key of another view.  Negatives: the other
    samples' keys of that view, and the queue.

    Args:
        scale: The initial t, above 0; its logarithm is learned.
        bias: The initial b.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Defaults:
        scale: Paper: 10. Code: 10. Here: at the start; it is learned.

    Source:
        Zhai et al., Sigmoid Loss for Language Image Pre-Training (2023), section 3.2.
    """

    def __init__(
        self, scale: float = 10.0, bias: float = -10.0, *, gather_distributed: bool = False
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.log_scale = nn.Parameter(torch.tensor(math.log(positive("scale", scale))))
        self.bias = nn.Parameter(torch.tensor(float(finite("bias", bias))))

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        scale, rows = self.log_scale.exp(), []
        for i, j in pairs.cross():
            value = softplus(-scale * pairs.own_sim(i, j) - self.bias)
            for sims, keep in pairs.negatives(i, j, self.within_view):
                value = value + (softplus(scale * sims + self.bias) * keep).sum(1)
            rows.append(value)
        values = torch.stack(rows)
        return values, torch.ones_like(values)

"""BYOL: predictions of the momentum keys of the other views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from ccl_plugins.methods.heads import mlp_head
from ccl_plugins.methods.momentum import PredictingMethod, rising


class BYOL(PredictingMethod):
    """Predictions of the other views' momentum keys (BYOL).

    Every view goes through the encoder by itself. With the objective ``lightly`` and its
    ``NegativeCosineSimilarity`` this is BYOL; BYOL's own loss for two views is 4 plus 4 times this
    value. Other objectives compare a prediction with the other samples' keys too.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim), keys (u, n, dim)

    Args:
        hidden: Width of the hidden layers of projector and predictor.

    Defaults:
        hidden: Paper: 4096.
        dim: Paper: 256.
        momentum: Paper: 0.996.

    Source:
        Grill et al., Bootstrap Your Own Latent (2020).  Heads as in lightly, whose linear layers before a
        batch normalization have no bias.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8}

    def __init__(
        self,
        hidden: int = 4096,
        dim: int = 256,
        momentum: float = 0.996,
        *,
        backbone: nn.Module,
    ) -> None:
        inputs: Any = backbone.num_features
        projector = mlp_head(inputs, hidden, dim, 2, last_norm="none")
        predictor = mlp_head(dim, hidden, dim, 2, last_norm="none")
        super().__init__(backbone, projector, predictor, momentum)

    def momentum_after(self, step: int, total: int) -> float:
        """Move the encoder with this step's momentum; MoCo v3 does so at the start of a step."""
        return rising(self.momentum, step, total)

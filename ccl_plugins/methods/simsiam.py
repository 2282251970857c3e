"""SimSiam: predictions of the other views' projections, which get no gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import WIDEST, matrix, whole
from ccl_plugins.methods.base import EncoderMethod
from ccl_plugins.methods.heads import mlp_head
from ccl_plugins.pairs.pairs import Pairs, with_keys
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import Embedded


class SimSiam(EncoderMethod):
    """Predictions of the other views' projections, which get no gradient (SimSiam).

    Every view goes through the encoder by itself.  With the objective ``lightly`` and its
    ``NegativeCosineSimilarity`` this is SimSiam.  Other objectives compare a prediction with the other
    samples' projections too.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim), keys (u, n, dim)

    Args:
        hidden: Width of the projector's hidden layers.
        dim: Dimension of predictions and keys.
        bottleneck: Width of the predictor's hidden layer.

    Raises:
        TypeError: For a size that is not a whole number.
        ValueError: For a size out of range.

    Defaults:
        hidden: Paper: 2048. Code: 2048.
        dim: Paper: 2048. Code: 2048.
        bottleneck: Paper: 512. Code: 512.

    Source:
        Chen and He, Exploring Simple Siamese Representation Learning (2021).  Heads as in lightly.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8, "bottleneck": 4}

    def __init__(
        self, hidden: int = 2048, dim: int = 2048, bottleneck: int = 512, *, backbone: nn.Module
    ) -> None:
        sides = ("dim", dim), ("bottleneck", bottleneck)
        matrix(*[(name, whole(name, width, 1, WIDEST)) for name, width in sides])
        inputs: Any = backbone.num_features
        super().__init__(backbone, mlp_head(inputs, hidden, dim, 3, last_norm="plain"))
        self.predictor = mlp_head(dim, bottleneck, dim, 2, last_norm="none")

    def query(self, features: Tensor) -> Tensor:
        """Predictions (n, d) of features (n, f)."""
        return self.predictor(self.head(features))

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """One forward pass for each view, so that batch statistics are of one view."""
        features = [self.encode(view) for view in views]
        projections = [self.head(each) for each in features]
        predictions = torch.stack([self.predictor(each) for each in projections])
        return Embedded(torch.stack(features), predictions, torch.stack(projections).detach())

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """Predictions of this process against the projections of all."""
        return with_keys(
            embedded.projections,
            embedded.keys,
            samples,
            first_key_view=0,
            gather_distributed=True,
        )

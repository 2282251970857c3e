"""MoCo v3: predictions against the momentum keys of the other views, without a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import below_one, one_of
from ccl_plugins.methods.heads import mlp_head
from ccl_plugins.methods.momentum import MomentumEncoder, against_keys, cosine_momentum
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Embedded


class MoCoV3(nn.Module):
    """MoCo v3: each view's prediction is compared with the momentum keys of the other views.

    Every view goes through the encoder by itself, so that batch statistics are of one view.  The key
    encoder follows the encoder and its projector, not the predictor, after each optimizer step: the
    reference moves it before it computes the keys of the next, which is the same, and in the first step
    both have equal weights.  The momentum rises as a cosine and would be 1 after the last step.

    With ``infonce(temperature=T)`` the loss is the mean of the directions between views; the
    reference's, for two views, is 4T times as large, as ``mixture([infonce], weights=[4T])`` has it.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim), keys (u, n, dim)

    Args:
        hidden: Width of the heads' hidden layers.
        dim: Dimension of predictions and keys.
        heads: Those of the reference for ``"vit"``, a projector of three layers and a normalized
            predictor, or for ``"resnet"``, a projector of two and a predictor that is not normalized.
        batch_norm: Whether heads have batch normalization, as the reference's.
        momentum: Of the key encoder in the first step, from 0 to below 1; the reference has 0.99,
            and 0.996 for 1000 epochs.
        backbone: Images to features; supplied by the pipeline.

    Raises:
        TypeError: For a size that is no whole number.
        ValueError: For a value out of range.

    Source:
        Chen, Xie and He, An Empirical Study of Training Self-Supervised Vision Transformers (2021).
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"hidden": 16, "dim": 8}

    def __init__(
        self,
        hidden: int = 4096,
        dim: int = 256,
        heads: Literal["vit", "resnet"] = "vit",
        batch_norm: bool = True,
        momentum: float = 0.99,
        *,
        backbone: nn.Module,
    ) -> None:
        super().__init__()
        vit = one_of("heads", heads, ("vit", "resnet")) == "vit"
        self.momentum = below_one("momentum", momentum)
        self.backbone = backbone
        inputs: Any = backbone.num_features
        self.head = mlp_head(
            inputs,
            hidden,
            dim,
            layers=3 if vit else 2,
            batch_norm=batch_norm,
            last_norm="plain",
        )
        self.predictor = mlp_head(
            dim,
            hidden,
            dim,
            layers=2,
            batch_norm=batch_norm,
            last_norm="plain" if vit else "none",
            last_bias=vit,
        )
        self.key_encoder = MomentumEncoder(self.backbone, self.head)

    def encode(self, x: Tensor) -> Tensor:
        """Features (n, f)."""
        return self.backbone(x)

    def project(self, x: Tensor) -> Tensor:
        """Predictions (n, d), which are what is compared with keys."""
        return self.predictor(self.head(self.encode(x)))

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """A forward pass for each view through the encoder, then through the key encoder."""
        features = [self.encode(view) for view in views]
        predictions = torch.stack([self.predictor(self.head(each)) for each in features])
        # Last: a second pass for the gradient's sake, as of micro-batches, ends before them.
        keys = torch.stack([self.key_encoder(view) for view in views])
        return Embedded(torch.stack(features), predictions, keys)

    def pairs(
        self, embedded: Embedded, condition: Mapping[str, Tensor], index: Tensor | None
    ) -> Pairs:
        """Predictions against the keys of all processes."""
        return against_keys(embedded, condition, index)

    def enqueue(self, pairs: Pairs) -> None:
        """Nothing: MoCo v3 has no queue."""

    def after_step(self, step: int, total: int) -> None:
        """Move the key encoder by the momentum of the step that its keys are for."""
        momentum = cosine_momentum(self.momentum, step + 1, total)
        self.key_encoder.update(self.backbone, self.head, momentum)

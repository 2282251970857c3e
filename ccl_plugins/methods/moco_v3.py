"""MoCo v3: predictions against the momentum keys of the other views, without a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import nn

from ccl_plugins.arguments import one_of
from ccl_plugins.methods.heads import mlp_head
from ccl_plugins.methods.momentum import PredictingMethod


class MoCoV3(PredictingMethod):
    """Momentum contrast without a queue: predictions against other views' keys (MoCo v3).

    Every view goes through the encoder by itself, so that batch statistics are of one view.  The
    momentum encoder follows the backbone and the projector, not the predictor, after each optimizer
    step. The reference moves it just before it computes the keys of the next step, which gives the
    same keys. The momentum rises as a cosine and would reach 1 after the last step.

    With ``infonce(temperature=T)`` the loss is the mean over the directions between views; the
    reference's loss, for two views, is 4T times as large: ``mixture([infonce], weights=[4T])``.

    Shape:
        u views (n, channels, height, width) -> projections (u, n, dim), keys (u, n, dim)

    Args:
        heads: The heads of the reference: ``"vit"``: a projector of three layers and a normalized
            predictor, or ``"resnet"``: a projector of two layers and a predictor that is not
            normalized.
        batch_norm: Whether heads have batch normalization, as in the reference.
        momentum: Momentum of the key encoder in the first step, from 0 to below 1; the reference has 0.99,
            and 0.996 for 1000 epochs.

    Defaults:
        hidden: Paper: 4096. Code: 4096.
        dim: Paper: 256. Code: 256.
        momentum: Paper: 0.99. Code: 0.99.

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
        vit = one_of("heads", heads, ("vit", "resnet")) == "vit"
        norm: dict[str, Any] = {"batch_norm": batch_norm, "last_norm": "plain"}
        inputs: Any = backbone.num_features
        projector = mlp_head(inputs, hidden, dim, 3 if vit else 2, **norm)
        if not vit:
            norm |= {"last_norm": "none", "last_bias": False}
        predictor = mlp_head(dim, hidden, dim, 2, **norm)
        super().__init__(backbone, projector, predictor, momentum)

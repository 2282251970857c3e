"""The vision transformer of MoCo v3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from ccl_plugins.arguments import DEEPEST, whole
from ccl_plugins.backbones.timm import Timm
from ccl_plugins.networks.timm_models import without_memory


class ViTMoCoV3(Timm):
    """A vision transformer (ViT) of timm, initialized as in MoCo v3.

    Positions are fixed sines and cosines. The patch embedding is initialized as a matrix and not
    trained, because training is unstable otherwise. All matrices have Xavier initialization,
    separately for queries, keys and values. The class token gives the feature. MoCo v3's ViT-S has
    12 heads, timm's 6: its ViT-B is ``vit_moco_v3(name="vit_base_patch16_224")``.

    Args:
        name: A ViT as in ``timm.list_models("vit_*")``, with a class token.
        heads: Attention heads of each block, 1 to 1024; they must divide its width.
        freeze_patches: Whether the patch embedding keeps its initial values.
        checkpointing: See `Timm`.

    Raises:
        ValueError: If timm has no model of this name, it is no ViT with a class token and positions, or
            the heads do not divide its width.
        TypeError: If the model does not take an option.

    Source:
        Chen, Xie and He, An Empirical Study of Training Self-Supervised Vision Transformers (2021).
        The positions are the reference's with the channels in another order.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "test_vit", "heads": 2}

    def __init__(
        self,
        name: str = "vit_small_patch16_224",
        heads: int = 12,
        freeze_patches: bool = True,
        checkpoint_path: str | None = None,
        options: Mapping[str, Any] | None = None,
        checkpointing: bool = False,
    ) -> None:
        width = getattr(without_memory(name, options or {}), "embed_dim", heads)
        if width % whole("heads", heads, 1, DEEPEST):
            raise ValueError(f"heads must divide the width of {name!r}, {width}, not {heads!r}")
        given = {"num_heads": heads, "weight_init": "moco", **(options or {})}
        super().__init__(name, options=given, checkpointing=checkpointing)
        _draw(self.model, name)
        self._load(checkpoint_path)
        self.model.patch_embed.proj.requires_grad_(not freeze_patches)


def _draw(model: Any, name: str) -> None:
    """Initialize positions, class token and patches, which timm's weight_init="moco" does not."""
    from lightly.models.utils import initialize_positional_embedding

    if getattr(model, "cls_token", None) is None or getattr(model, "pos_embed", None) is None:
        raise ValueError(
            f"{name!r} has no class token and learned positions, which MoCo v3's ViT has;"
            " 'vit_small_patch16_224' is one"
        )
    initialize_positional_embedding(model.pos_embed, "sincos", model.num_prefix_tokens)
    patches = model.patch_embed.proj
    bound = math.sqrt(6 / (patches.weight[0].numel() + model.embed_dim))
    with torch.no_grad():
        nn.init.normal_(model.cls_token, std=1e-6)
        nn.init.uniform_(patches.weight, -bound, bound)
        nn.init.zeros_(patches.bias)

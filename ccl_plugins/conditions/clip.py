"""CLIP features as conditioning variable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ccl_plugins.conditions.encoder import Encoder
from ccl_plugins.protocols import Missing


class CLIP(Encoder):
    """The embedding of each image by CLIP (contrastive language-image pre-training), of timm.

    A preset of the condition ``encoder``: an image tower with its projection into the space that images and
    texts share; 512 numbers for OpenAI's ViT-B/32.

    Shape:
        N samples -> (N, f)

    Args:
        name: A CLIP image tower of timm, with a tag of weights.

    Raises:
        ValueError: For a model that timm does not have or that is not a CLIP tower, and for a file of
            another data set.

    Source:
        Radford et al., Learning Transferable Visual Models from Natural Language Supervision (2021);
        as a condition in Tsai et al., Conditional Contrastive Learning with Kernel (2022), section 4.1.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "name": "vit_xsmall_patch16_clip_224",
        "pretrained": False,
        "options": {"depth": 1},
    }

    def __init__(
        self,
        name: str = "vit_base_patch32_clip_quickgelu_224.openai",
        pretrained: bool = True,
        checkpoint_path: str | Path | None = None,
        normalize: bool = False,
        options: Mapping[str, Any] | None = None,
        file: str | Path | None = None,
        key: str | None = None,
        missing: Missing = "error",
        cache: str | Path | None = None,
        batch_size: int = 64,
        workers: int = 0,
        device: str | None = None,
    ) -> None:
        if "clip" not in name or "_ft_" in name:
            raise ValueError(
                f"{name!r} is not a CLIP tower with its weights from images and texts: take one of "
                "timm.list_models('*clip*', pretrained=True) without '_ft_' in its name, or the "
                "condition encoder, which takes any model"
            )
        super().__init__(
            name if file is None else None,
            pretrained,
            checkpoint_path,
            head=True,
            normalize=normalize,
            options=options,
            file=file,
            key=key,
            missing=missing,
            cache=cache,
            batch_size=batch_size,
            workers=workers,
            device=device,
        )

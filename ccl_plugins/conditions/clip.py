"""CLIP features as conditioning variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ccl_plugins.conditions.encoder import Encoder


@dataclass(eq=False, repr=False)
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

    name: str = "vit_base_patch32_clip_quickgelu_224.openai"
    head: bool = field(default=True, init=False)
    image_size: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Refuse a model that is no CLIP tower, and take no model beside a file."""
        if "clip" not in self.name or "_ft_" in self.name:
            raise ValueError(
                f"{self.name!r} is not a CLIP tower with its weights from images and texts: take one of "
                "timm.list_models('*clip*', pretrained=True) without '_ft_' in its name, or the "
                "condition encoder, which takes any model"
            )
        if self.file is not None:
            self.name = None  # type: ignore[assignment]  # as an encoder with a file has it
        super().__post_init__()

"""MoCo v2's augmentations."""

from __future__ import annotations

from collections.abc import Sequence

from ccl_plugins.transforms.lightly import LightlyTransform
from ccl_plugins.transforms.steps import Jitter, view_steps

MOCO_V2 = Jitter(0.4, 0.4, 0.4, 0.1)


class MoCoV2Transform(LightlyTransform):
    """Views by MoCo v2's augmentations: SimCLR's with half the color jitter and larger crops.

    Args:
        count: Number of views, all drawn alike, 1 to 1024.

    Defaults:
        size: Paper: 224. Code: 224.
        min_scale: Code: 0.2.
        flip: Code: 0.5.
        jitter: Code: 0.4, 0.4, 0.4, 0.1. Here: these four are the range of strength 1.
        gray: Code: 0.2.
        blur: Code: 0.5.

    Source:
        Chen et al., Improved Baselines with Momentum Contrastive Learning (2020), as in lightly.
    """

    def __init__(
        self,
        size: int = 224,
        *,
        count: int = 2,
        min_scale: float = 0.2,
        flip: float = 0.5,
        jitter: float = 1.0,
        gray: float = 0.2,
        blur: float = 0.5,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        batched: bool = False,
    ) -> None:
        steps = view_steps(size, min_scale, flip, jitter, gray, blur, like=MOCO_V2)
        super().__init__([steps], size=size, mean=mean, std=std, count=count, batched=batched)

"""SimCLR's augmentations."""

from __future__ import annotations

from collections.abc import Sequence

from ccl_plugins.transforms.lightly import LightlyTransform
from ccl_plugins.transforms.steps import Jitter, view_steps

SIMCLR = Jitter(0.8, 0.8, 0.8, 0.2)


class SimCLRTransform(LightlyTransform):
    """Two views by SimCLR's augmentations: crop, flip, color jitter, gray, blur.

    Images are PIL images of mode RGB or L, or uint8 tensors (channels, height, width); gray images are
    repeated to three channels if ``mean`` has three.

    Defaults:
        size: Paper: 224. Code: 224.
        min_scale: Paper: 0.08. Code: 0.08.
        flip: Paper: 0.5. Code: 0.5.
        jitter: Paper: 1; 0.5 on CIFAR-10. Code: 1.
        gray: Paper: 0.2. Code: 0.2.
        blur: Paper: 0.5; none on CIFAR-10. Code: 0.5.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020),
        appendix A, as in lightly.
    """

    def __init__(
        self,
        size: int = 224,
        *,
        min_scale: float = 0.08,
        flip: float = 0.5,
        jitter: float = 1.0,
        gray: float = 0.2,
        blur: float = 0.5,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        batched: bool = False,
    ) -> None:
        steps = view_steps(size, min_scale, flip, jitter, gray, blur, like=SIMCLR)
        super().__init__([steps], size=size, mean=mean, std=std, count=2, batched=batched)

"""DINO's augmentations: large crops and small ones."""

from __future__ import annotations

from collections.abc import Sequence

from torchvision.transforms.v2 import InterpolationMode, RandomResizedCrop

from ccl_plugins.arguments import DEEPEST, SHARPEST, fraction, whole
from ccl_plugins.transforms.byol import BYOL
from ccl_plugins.transforms.lightly import LightlyTransform
from ccl_plugins.transforms.steps import view_steps


class DINOTransform(LightlyTransform):
    """Two large views and several small ones by the augmentations of DINO.

    The first large view is always blurred; the second is rarely blurred and sometimes solarized. A
    large crop keeps at least ``min_scale`` of the area, a small one at least ``small_min_scale``
    and at most ``min_scale``.

    Args:
        small: Number of small views, 0 to 1024.
        size: Height and width of a large view in pixels, 1 to 16384.
        small_size: Height and width of a small view in pixels, 1 to 16384.
        min_scale: The smallest part of the image's area that a large crop keeps, and the largest
            that a small crop keeps, above 0 and at most 1.
        small_min_scale: Smallest part that a small crop keeps, above 0 and at most ``min_scale``.
        blur: Probabilities of a Gaussian blur of 0.1 to 2 pixels, in the two large views and in the small
            ones.
        solarize: Probability of inverting the brighter half of the pixel range, in the second large view.

    Attributes:
        sizes: Height and width of each view in pixels.

    Defaults:
        small: Code: 8. Here: lightly has 6.
        size: Paper: 224. Code: 224.
        small_size: Paper: 96. Code: 96.
        min_scale: Code: 0.4.
        small_min_scale: Code: 0.05.
        flip: Code: 0.5.
        jitter: Code: 0.4, 0.4, 0.2, 0.1. Here: these four are the range of strength 1.
        gray: Code: 0.2.
        solarize: Code: 0.2.

    Source:
        Caron et al., Emerging Properties in Self-Supervised Vision Transformers (2021).  As in lightly,
        with its bicubic crops; ``batched`` ones are bilinear.
    """

    def __init__(
        self,
        size: int = 224,
        *,
        small: int = 6,
        small_size: int = 96,
        min_scale: float = 0.4,
        small_min_scale: float = 0.05,
        flip: float = 0.5,
        jitter: float = 1.0,
        gray: float = 0.2,
        blur: tuple[float, float, float] = (1.0, 0.1, 0.5),
        solarize: float = 0.2,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        batched: bool = False,
    ) -> None:
        if len(blur) != 3:
            raise ValueError(f"blur must be three probabilities, not {blur!r}")
        fraction("min_scale", min_scale)
        if fraction("small_min_scale", small_min_scale) > min_scale:
            raise ValueError(
                f"small_min_scale must be at most min_scale, {min_scale!r}, not {small_min_scale!r}"
            )
        pixels = (size, size, whole("small_size", small_size, 1, SHARPEST))
        scales = ((min_scale, 1.0), (min_scale, 1.0), (small_min_scale, min_scale))
        kinds = []
        for each, scale, blurred, solarized in zip(
            pixels, scales, blur, (0.0, solarize, 0.0), strict=True
        ):
            _, *rest = view_steps(
                each, scale[0], flip, jitter, gray, blurred, like=BYOL, solarize=solarized
            )
            crop = RandomResizedCrop(each, scale, interpolation=InterpolationMode.BICUBIC)
            kinds.append([crop, *rest])
        repeated = [*kinds[:2], *[kinds[2]] * whole("small", small, 0, DEEPEST)]
        super().__init__(repeated, size=size, mean=mean, std=std, batched=batched)
        self.sizes = pixels[:2] + pixels[2:] * small

"""SimCLR's augmentations."""

from __future__ import annotations

from collections.abc import Sequence

from ccl_plugins.views.lightly_views import IMAGENET_MEAN, IMAGENET_STD, LightlyViews
from ccl_plugins.views.steps import Jitter, view_steps

SIMCLR = Jitter(0.8, 0.8, 0.8, 0.2)


class SimCLRViews(LightlyViews):
    """Two views by SimCLR's augmentations: crop, flip, color jitter, gray, blur.

    lightly's transform with the parameters below.  Images are PIL images of mode RGB or L, or uint8
    tensors (channels, height, width); gray images are repeated to three channels if ``mean`` has three.

    Args:
        size: Height and width of a view in pixels, 1 or more.
        min_scale: Smallest part of the image's area that a crop keeps, above 0 and at most 1.
        flip: Probability of a horizontal flip.
        jitter: Strength of the color jitter, applied with probability 0.8; 0 turns it off, 0.5 is
            usual for small images, 2.5 is the most.
        grey: Probability of losing the color.
        blur: Probability of a Gaussian blur of 0.1 to 2 pixels.
        mean: Of each channel, for pixels in [0, 1].
        std: Of each channel, above 0, for pixels in [0, 1].

    Raises:
        ValueError: If a parameter is out of its range; on use, for a wrong shape or mode.
        TypeError: On use, for an image that is neither PIL's nor a uint8 tensor.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020),
        appendix A, as in lightly.
    """

    def __init__(
        self,
        size: int = 224,
        min_scale: float = 0.08,
        flip: float = 0.5,
        jitter: float = 1.0,
        grey: float = 0.2,
        blur: float = 0.5,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        steps = view_steps(size, min_scale, flip, jitter, grey, blur, like=SIMCLR)
        super().__init__([steps], size=size, mean=mean, std=std, count=2)

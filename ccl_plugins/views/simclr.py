"""SimCLR's augmentations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ccl_plugins.ranges import non_negative
from ccl_plugins.views.lightly_views import IMAGENET_MEAN, IMAGENET_STD, LightlyViews


class SimCLRViews(LightlyViews):
    """Two views by SimCLR's augmentations: crop, flip, color jitter, grey, blur.

    lightly's transform, with the names below.  Images are RGB or L images of PIL, or uint8 tensors
    (channels, height, width); gray ones are repeated to three channels where ``mean`` has three.

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
        steps = simclr_steps(size, min_scale, flip, jitter, grey, blur)
        super().__init__([steps, steps], size=size, mean=mean, std=std)


def simclr_steps(
    size: int, min_scale: float, flip: float, jitter: float, grey: float, blur: float
) -> list[Any]:
    """The steps of lightly's transform of one view, up to the conversion to a tensor."""
    # lightly takes a moment to import, and listing the views needs none of it.
    from lightly.transforms.simclr_transform import SimCLRViewTransform

    if not 0 < min_scale <= 1:
        raise ValueError(f"min_scale must be above 0 and at most 1, not {min_scale!r}")
    for name, probability in {"flip": flip, "grey": grey, "blur": blur}.items():
        if not 0 <= probability <= 1:
            raise ValueError(f"{name} must be a probability, 0 to 1, not {probability!r}")
    if non_negative("jitter", jitter) > 2.5:  # hue is shifted by 0.2 jitter, of a circle of 1
        raise ValueError(f"jitter must be at most 2.5, not {jitter!r}")
    transform = SimCLRViewTransform(
        input_size=size,
        min_scale=min_scale,
        hf_prob=flip,
        cj_prob=0.8 if jitter > 0 else 0.0,
        cj_strength=jitter,
        random_gray_scale=grey,
        gaussian_blur=blur,
        normalize=None,
    )
    *steps, _to_tensor = transform.transform.transforms
    return steps

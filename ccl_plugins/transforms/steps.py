"""The steps of a view: lightly's transform with our parameters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ccl_plugins.arguments import SHARPEST, fraction, non_negative, probability, whole

Range: TypeAlias = tuple[float, float]


class Jitter(NamedTuple):
    """The range of a color jitter of strength 1: torchvision's four parameters."""

    brightness: float
    contrast: float
    saturation: float
    hue: float


def view_steps(
    size: int,
    min_scale: float,
    flip: float,
    jitter: float,
    gray: float,
    blur: float,
    *,
    like: Jitter,
    chance: float = 0.8,
    solarize: float = 0.0,
) -> list[Any]:
    """The steps of lightly's transform of one view, up to the conversion to a tensor.

    The arguments are those of `LightlyTransform` and its subclasses; ``like`` is the range of the color
    jitter at strength 1, and ``chance`` its probability.

    Raises:
        ValueError: If a parameter is out of its range.
    """
    # Imported late: lightly takes a moment, and listing the views does not need it.
    from lightly.transforms.byol_transform import BYOLView2Transform

    whole("size", size, 1, SHARPEST)
    fraction("min_scale", min_scale)
    given = {"flip": flip, "gray": gray, "blur": blur, "solarize": solarize}
    for name, value in {**given, "jitter_chance": chance}.items():
        probability(name, value)
    most = 0.5 / like.hue if like.hue > 0 else math.inf  # the circle of hues is 1
    if non_negative("jitter", jitter) > most:
        raise ValueError(f"jitter must be at most {most:g}, not {jitter!r}")
    transform = BYOLView2Transform(
        input_size=size,
        min_scale=min_scale,
        hf_prob=flip,
        cj_prob=chance if jitter > 0 else 0.0,
        cj_strength=jitter,
        cj_bright=like.brightness,
        cj_contrast=like.contrast,
        cj_sat=like.saturation,
        cj_hue=like.hue,
        random_gray_scale=gray,
        gaussian_blur=blur,
        solarization_prob=solarize,
        normalize=None,
    )
    *steps, _to_tensor = transform.transform.transforms
    return steps


class ChannelJitter:
    """Change the brightness and contrast of each channel, as light and stains do.

    This step takes images of any channels, which have no saturation and hue.

    Args:
        brightness: The least and the most factor of a channel.
        contrast: The least and the most factor of its distance from its mean.
        p: The probability of a change.
    """

    def __init__(self, brightness: Range, contrast: Range, p: float) -> None:
        self.brightness, self.contrast, self.p = brightness, contrast, p

    def __call__(self, image: Tensor) -> Tensor:
        """The image, (channels, height, width) uint8."""
        if torch.rand(()) >= self.p:
            return image
        numbers, ranges = torch.rand(2, len(image)), (self.brightness, self.contrast)
        drawn = [low + (high - low) * u for u, (low, high) in zip(numbers, ranges, strict=True)]
        changed = self.changed(image[None] / 255, torch.cat(drawn)[None])
        return (255 * changed[0]).round().to(torch.uint8)

    @staticmethod
    def changed(images: Tensor, factors: Tensor) -> Tensor:
        """Images (n, channels, height, width) in [0, 1], by factors (n, 2 channels)."""
        brighter, sharper = factors[:, :, None, None].chunk(2, 1)
        images = (images * brighter).clamp(0, 1)
        return torch.lerp(images.mean((2, 3), keepdim=True), images, sharper).clamp(0, 1)


def of_channels(step: Any) -> Any:
    """A step for images of any channels: a color jitter is replaced by `ChannelJitter`; others stay."""
    (colors,) = getattr(step, "transforms", None) or (None,)
    if colors is None:
        return step
    brightness, contrast = (each or (1.0, 1.0) for each in (colors.brightness, colors.contrast))
    return ChannelJitter(brightness, contrast, step.p)

"""A view of a whole batch of images, on their device, with random numbers of each image's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ccl_plugins.transforms.steps import ChannelJitter

TRIES = 10
"""How often a crop is drawn until one fits, as in torchvision."""

DRAWN = 2 * TRIES + 16
"""The uniform numbers of a view, but those of single channels, which follow."""

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
"""The operations of a color jitter, in the order of its factors."""

STEPS = (
    "RandomResizedCrop",
    "RandomHorizontalFlip",
    "RandomApply",
    "RandomGrayscale",
    "GaussianBlur",
    "RandomSolarization",
)
"""The steps of a view, in their order, as torchvision and lightly name them."""


class Drawn(NamedTuple):
    """The random parameters of a view of n images."""

    box: Tensor
    """(n, 4) top, left, height and width of the crop, in pixels."""
    flip: Tensor
    """(n,) bool."""
    factors: Tensor
    """(n, 4) brightness, contrast and saturation, 1 for no change, and the turn of the hue, 0 for none."""
    order: Tensor
    """(n, 4) the operations of the color jitter as they follow each other."""
    gray: Tensor
    """(n,) bool."""
    sigma: Tensor
    """(n,) pixels of the blur; below 0.1 it changes nothing."""
    solarize: Tensor
    """(n,) bool."""


class BatchedView:
    """A view of each image of a batch, drawn as lightly's steps draw that of one image.

    Parameters have the distribution of the steps.  Pixels are not rounded between steps, and the blur is
    Gaussian, where PIL's is three box filters of its variance: views differ by levels of 255.

    Args:
        steps: The steps of a view in lightly, from its random resized crop, in its order.

    Raises:
        ValueError: For a step that is none of `STEPS`, or in another order.
    """

    def __init__(self, steps: Sequence[Any]) -> None:
        steps = [*steps]
        self.channels = next((each for each in steps if isinstance(each, ChannelJitter)), None)
        if self.channels is not None:
            steps.remove(self.channels)
        names = [type(step).__name__ for step in steps]
        if names[:1] != [*STEPS[:1]] or names != [name for name in STEPS if name in names]:
            raise ValueError(
                f"batched views have the steps {', '.join(STEPS)} in this order, not {', '.join(names)}"
            )
        self.crop, *_ = steps
        self.size = tuple(self.crop.size)
        of = dict(zip(names, steps, strict=True))
        flip, jitter, gray, blur, solarize = (of.get(name) for name in STEPS[1:])
        self.flip = getattr(flip, "p", 0.0)
        self.gray = getattr(gray, "p", 0.0)
        self.jitter_chance = getattr(jitter, "p", 0.0)
        self.factors = [(1.0, 1.0)] * 3 + [(0.0, 0.0)]
        if jitter is not None:
            (colors,) = jitter.transforms
            given = (colors.brightness, colors.contrast, colors.saturation, colors.hue)
            self.factors = [each or none for each, none in zip(given, self.factors, strict=True)]
        self.blur = getattr(blur, "prob", 0.0)
        self.sigmas = getattr(blur, "sigmas", (0.0, 0.0))
        self.solarize = getattr(solarize, "prob", 0.0)
        self.threshold = getattr(solarize, "threshold", 256)

    def __call__(self, images: Tensor, seeds: Tensor) -> Tensor:
        """The views (n, channels, size, size), float32 in [0, 1].

        Args:
            images: (n, channels, height, width) uint8, of 1 or 3 channels if colors change by `jittered`.
            seeds: (n,) long, of each image.
        """
        drawn = self.draw(seeds, *images.shape[-2:])
        rows, columns = crop_weights(drawn.box, drawn.flip, images.shape[-2:], self.size)
        x = resampled(images.float().mul_(1 / 255), rows, columns)
        if self.jitter_chance:
            x = jittered(x, drawn.factors, drawn.order)
        if self.channels is not None:
            u = uniforms(seeds, DRAWN + 1 + 2 * x.shape[1])[:, DRAWN:]
            which = (u[:, 0] < self.channels.p)[:, None, None, None]
            x = torch.where(which, self.channels.changed(x, u[:, 1:]), x)
        if self.gray:
            x = torch.where(drawn.gray[:, None, None, None], luminance(x), x)
        if self.blur:
            x = blurred(x, drawn.sigma, self.sigmas[1])
        if self.solarize:
            bright = x > (self.threshold - 0.5) / 255
            x = torch.where(bright & drawn.solarize[:, None, None, None], 1 - x, x)
        return x.contiguous()

    def draw(self, seeds: Tensor, height: int, width: int) -> Drawn:
        """The parameters of the views of n images of a size; row i depends on seed i alone."""
        u = uniforms(seeds, DRAWN)
        box, rest = u[:, : 2 * TRIES + 2], u[:, 2 * TRIES + 2 :]
        flip, jitter, gray, blur, sigma, solarize = rest[:, 8:].unbind(1)
        changed = jitter < self.jitter_chance
        factors = []
        for (low, high), none, each in zip(
            self.factors, (1, 1, 1, 0), rest.unbind(1), strict=False
        ):
            factors.append(torch.where(changed, low + (high - low) * each, none))
        low, high = self.sigmas
        return Drawn(
            box=boxes(box, height, width, self.crop.scale, self.crop.ratio),
            flip=flip < self.flip,
            factors=torch.stack(factors, 1),
            order=rest[:, 4:8].argsort(1),
            gray=gray < self.gray,
            sigma=torch.where(blur < self.blur, low + (high - low) * sigma, 0.0),
            solarize=solarize < self.solarize,
        )


def uniforms(seeds: Tensor, count: int) -> Tensor:
    """(n, count) uniform numbers in [0, 1), float32, by SplitMix64: the same on every device.

    Args:
        seeds: (n,) long.
        count: How many numbers of each seed.

    Source:
        Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014).
    """
    x = seeds[:, None] + torch.arange(1, count + 1, device=seeds.device) * -0x61C8864680B583EB
    x = (x ^ _shifted(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shifted(x, 27)) * -0x6B2FB644ECCEEE15
    x = x ^ _shifted(x, 31)
    return _shifted(x, 40).float() / (1 << 24)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Bits shifted to the right; the sign does not follow."""
    return (x >> by) & ((1 << 64 - by) - 1)


def boxes(
    u: Tensor, height: int, width: int, scale: Sequence[float], ratio: Sequence[float]
) -> Tensor:
    """(n, 4) top, left, height and width of random crops, drawn as in torchvision's RandomResizedCrop.

    Args:
        u: (n, 2 * TRIES + 2) uniform numbers.
        height: Of the images, in pixels.
        width: Of the images, in pixels.
        scale: The least and the most of the area that a crop keeps.
        ratio: The least and the most of its width over its height, drawn uniformly in the logarithm.
    """
    area = height * width * (scale[0] + (scale[1] - scale[0]) * u[:, :TRIES])
    low, high = map(math.log, ratio)
    aspect = (low + (high - low) * u[:, TRIES:-2]).exp()
    wide, tall = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    fits = (wide >= 1) & (wide <= width) & (tall >= 1) & (tall <= height)
    first = fits.int().argmax(1, keepdim=True)
    wide, tall = (each.gather(1, first).squeeze(1) for each in (wide, tall))
    left = (u[:, -1] * (width - wide + 1)).floor().minimum(width - wide)
    top = (u[:, -2] * (height - tall + 1)).floor().minimum(height - tall)
    # Where no try fits: the largest crop in the center whose ratio is allowed.
    most_wide, most_tall = width, height
    if width / height < ratio[0]:
        most_tall = round(width / ratio[0])
    elif width / height > ratio[1]:
        most_wide = round(height * ratio[1])
    center = ((height - most_tall) // 2, (width - most_wide) // 2, most_tall, most_wide)
    any_fits = fits.any(1)
    parts = zip((top, left, tall, wide), center, strict=True)
    return torch.stack([torch.where(any_fits, part, other) for part, other in parts], 1)


def crop_weights(
    box: Tensor, flip: Tensor, shape: Sequence[int], size: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Weights that crop, resize and flip n images: of rows (n, size, height), of columns (n, size, width).

    Bilinear, and smoothed where a crop becomes smaller, as PIL and torchvision resize.

    Args:
        box: (n, 4) top, left, height and width, as `Drawn` has them.
        flip: (n,) bool, left and right are exchanged.
        shape: Height and width of the images.
        size: Height and width of the results.
    """
    top, left, tall, wide = box.unbind(1)
    rows = _line_weights(top, tall, shape[0], size[0])
    columns = _line_weights(left, wide, shape[1], size[1])
    return rows, torch.where(flip[:, None, None], columns.flip(1), columns)


def _line_weights(start: Tensor, length: Tensor, pixels: int, size: int) -> Tensor:
    start, length = start[:, None, None], length[:, None, None]
    place = torch.arange(pixels, device=start.device) + 0.5
    step = length / size
    center = start + (torch.arange(size, device=start.device)[:, None] + 0.5) * step
    weights = (1 - (place - center).abs() / step.clamp_min(1)).clamp_min(0)
    weights = weights * ((place > start) & (place < start + length))
    return weights / weights.sum(2, keepdim=True)


def resampled(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(n, c, h, w) images whose rows and columns are weighted sums.

    Args:
        x: (n, c, height, width).
        rows: (n, h, height).
        columns: (n, w, width).
    """
    n, c, height, width = x.shape
    # One product for all channels, which lie side by side.
    x = torch.bmm(rows, x.transpose(1, 2).reshape(n, height, c * width))
    x = torch.bmm(x.view(n, -1, width), columns.mT)
    return x.view(n, rows.shape[1], c, -1).transpose(1, 2)


def jittered(x: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Images with other brightness, contrast, saturation and hue, as by torchvision's ColorJitter.

    Args:
        x: (n, c, h, w) in [0, 1], of 3 channels, or of 1, which has neither saturation nor hue.
        factors: (n, 4) as `Drawn` has them.
        order: (n, 4) as `Drawn` has them.
    """
    hue_at = (order == HUE).int().argmax(1)
    # The hue costs most and is turned once for all: what comes before and after it differs by image.
    for place in range(3):
        x = _blended(x, factors, order[:, place], place < hue_at)
    if x.shape[1] == 3:
        x = hue_turned(x, factors[:, HUE])
    for place in range(1, 4):
        x = _blended(x, factors, order[:, place], place > hue_at)
    return x


def _blended(x: Tensor, factors: Tensor, kind: Tensor, which: Tensor) -> Tensor:
    """Some of the images, moved from black, from their mean or from their gray by the factor of a kind."""
    factor = torch.where(which, factors.gather(1, kind[:, None]).squeeze(1), 1.0)
    gray = luminance(x)
    kind, factor = kind[:, None, None, None], factor[:, None, None, None]
    origin = torch.where(kind == CONTRAST, gray.mean((1, 2, 3), keepdim=True), gray)
    origin = torch.where(kind == BRIGHTNESS, 0.0, origin)
    return torch.lerp(origin, x, factor).clamp_(0, 1)


def luminance(x: Tensor) -> Tensor:
    """The gray (n, 1, h, w) of images of 3 channels, as PIL has it, or of 1."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.split(1, 1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def hue_turned(x: Tensor, turn: Tensor) -> Tensor:
    """(n, 3, h, w) images whose hues are turned; saturation and value in HSV stay.

    Args:
        x: (n, 3, h, w) in [0, 1].
        turn: (n,) parts of a whole turn.
    """
    red, green, blue = x.split(1, 1)
    high, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    chroma = high - low
    # In sixths of a turn; of gray pixels 0, whose chroma is 0 too.
    whole = torch.where(chroma > 0, chroma, 1.0)
    hue = torch.where(high == green, 2 + (blue - red) / whole, 4 + (red - green) / whole)
    hue = torch.where(high == red, (green - blue) / whole, hue) + 6 * turn[:, None, None, None]
    sixths = torch.cat([(hue + offset) % 6 for offset in (5, 3, 1)], 1)
    return high - chroma * torch.minimum(sixths, 4 - sixths).clamp_(0, 1)


def blurred(x: Tensor, sigma: Tensor, most: float) -> Tensor:
    """Images after a Gaussian blur, the pixels of the border repeated outside.

    Args:
        x: (n, c, h, w).
        sigma: (n,) pixels; below 0.1 an image stays as it is.
        most: The largest sigma there may be; the filter ends at three times of it.
    """
    reach = math.ceil(3 * most)
    offset = torch.arange(-reach, reach + 1, device=x.device)
    weights = (-0.5 * (offset / sigma[:, None].clamp_min(0.01)).square()).softmax(1)
    lines = []
    for size in x.shape[-2:]:
        place = torch.arange(size, device=x.device)
        read = (place + offset[:, None]).clamp(0, size - 1)[:, :, None] == place
        lines.append((weights @ read.flatten(1).to(x.dtype)).view(-1, size, size))
    return resampled(x, *lines)

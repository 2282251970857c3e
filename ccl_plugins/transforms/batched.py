"""Views of a whole batch of images, on the images' device, with separate random numbers for each image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ccl_plugins.transforms.steps import ChannelJitter

TRIES = 10
"""How often a crop is drawn until one fits, as in torchvision."""

DRAWN = 2 * TRIES + 16
"""The number of uniform random numbers of a view, without those of single channels, which follow."""

RANGE = 1 << 24
"""The number of different random numbers: as many as float32 can distinguish in [0, 1)."""

BRIGHTNESS, CONTRAST, SATURATION, GRAY, HUE = range(5)
"""The operations on colors, in the order of their factors. Gray is a saturation of 0, applied after
the others."""

LUMINANCE = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in gray, as in PIL."""

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
    """(n, 2) 1 where rows and columns are flipped, else 0; rows are never flipped."""
    factors: Tensor
    """(n, 5) brightness, contrast, saturation and gray, 1 for no change, and the turn of the hue, 0 for
    none."""
    places: Tensor
    """(n, 5) the place of each color operation in the order, from 0; gray is last."""
    sigma: Tensor
    """(n,) pixels of the blur; below 0.1 it changes nothing."""
    threshold: Tensor
    """(n,) thresholds above which a pixel in [0, 1] is inverted; 2 inverts no pixel."""
    channels: Tensor
    """(n, 2 c) brightness and contrast of each of c channels, 1 for no change; (n, 0) without this step."""


class _Parameter(NamedTuple):
    """A random parameter: uniform in a range if its step happens, else a given value."""

    number: int
    """The place of the parameter among a view's uniform numbers."""
    low: float = 0.0
    high: float = 1.0
    chance: float = 1.0
    """The probability that its step happens."""
    of: int = 0
    """The place of the number that decides whether the step happens."""
    otherwise: float = 0.0


class Lines(NamedTuple):
    """The positions of rows and columns of images and of their views, in pixels."""

    sides: Tensor
    """(2,) height and width of the images."""
    places: Tensor
    """(l,) positions of the images' lines, as many as the longer side has."""
    size: Tensor
    """(2, 1, 1) height and width of the views."""
    centers: Tensor
    """(k, 1) positions of the views' lines, as many as the longer side has."""
    mirrored: Tensor
    """(2, k, 1) positions of the views' lines, counted from the other side."""

    @classmethod
    def of(cls, shape: Sequence[int], size: Sequence[int], device: Any = None) -> Lines:
        """The positions for images and views of a height and a width."""
        sides, both = (
            torch.tensor([*each], dtype=torch.float32, device=device) for each in (shape, size)
        )
        places, centers = (
            torch.arange(max(each), dtype=torch.float32, device=device) + 0.5
            for each in (shape, size)
        )
        both, centers = both[:, None, None], centers[:, None]
        return cls(sides, places, both, centers, both - centers)


class Blur(NamedTuple):
    """A Gaussian filter that reads at most r pixels on each side, and repeats the border's pixels."""

    logarithms: Tensor
    """(2 r + 1,) logarithms of the weights, up to a constant, for a standard deviation of 1."""
    reads: Mapping[int, Tensor]
    """(2 r + 1, k k), for lines of k pixels: 1 where a pixel reads another with this weight, else 0."""

    @classmethod
    def of(cls, reach: int, size: Sequence[int], device: Any = None) -> Blur:
        """The filter for views of a height and a width."""
        offset = torch.arange(-reach, reach + 1, device=device)
        reads = {}
        for each in size:
            place = torch.arange(each, device=device)
            read = (place + offset[:, None]).clamp(0, each - 1)[:, :, None] == place
            reads[each] = read.flatten(1).to(torch.float32)
        return cls(-0.5 * offset.to(torch.float32).square(), reads)


class _Constants(NamedTuple):
    """The tensors that all batches of images of one shape share on a device."""

    counters: Tensor
    """(2 k,) places of the random numbers of k parameters, then of those that decide whether the
    steps happen."""
    parameters: Tensor
    """(4, k) the parameters' smallest values, their ranges, their probabilities, and their neutral
    values."""
    middle: Tensor
    """(4,) the box to use if no crop fits."""
    lines: Lines
    mixing: Tensor
    """(5, 2 c c) from `mixing`."""
    blur: Blur
    scale: Tensor
    """(c, 1, 1) means of pixels in [0, 1]."""
    shift: Tensor
    """(c, 1, 1) after it."""


class BatchedView:
    """A view of each image of a batch, with lightly's steps.

    Parameters have the distribution of lightly's parameters. Pixels are not rounded between steps,
    and the blur is Gaussian, while PIL uses three box filters of the same variance. So views differ
    from lightly's by a few levels of 255.

    On a device that waits for launches, the time is proportional to the number of operations. So
    one formula draws all parameters from a table, a step that does not happen gets a neutral value
    instead of a branch, and a change of colors is a matrix product.

    Args:
        steps: The steps of a view in lightly, from its random resized crop, in its order.
        mean: Mean of each channel of the views, for pixels in [0, 1].
        std: Standard deviation of each channel.

    Raises:
        ValueError: For a step that is not in `STEPS`, or for another order.
    """

    def __init__(
        self,
        steps: Sequence[Any],
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
    ) -> None:
        steps = [*steps]
        self.mean, self.std = mean, std
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
        self._last: tuple[Any, _Constants] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state without tensors on a device, for worker processes."""
        return {**self.__dict__, "_last": None}

    def __call__(self, images: Tensor, seeds: Tensor) -> Tensor:
        """The views (n, channels, size, size), float32.

        Args:
            images: (n, channels, height, width) uint8, of as many channels as ``mean``.
            seeds: (n,) long, one for each image.
        """
        height, width = images.shape[-2:]
        kept = self._kept(images.device, height, width)
        drawn = self.draw(seeds, height, width)
        rows, columns = crop_weights(drawn.box, drawn.flip, kept.lines)
        rows, columns = rows[:, : self.size[0], :height], columns[:, : self.size[1], :width]
        x = resampled(images, rows.mul_(1 / 255), columns)
        if self.jitter_chance or self.gray:
            x = jittered(x, drawn.factors, drawn.places, kept.mixing, turns=self.jitter_chance > 0)
        if self.channels is not None:
            x = self.channels.changed(x, drawn.channels)
        if self.blur:
            x = blurred(x, drawn.sigma, kept.blur)
        if self.solarize:
            # |x - 1| where it is bright, |x - 0| elsewhere.
            x = x.add(x > drawn.threshold[:, None, None, None], alpha=-1).abs_()
        return torch.addcmul(kept.shift, x, kept.scale)

    def draw(self, seeds: Tensor, height: int, width: int) -> Drawn:
        """The parameters of the views of n images of a size; row i depends on seed i alone."""
        kept = self._kept(seeds.device, height, width)
        value, happens = _hashed(seeds[:, None] + kept.counters).chunk(2, 1)
        low, span, chance, otherwise = kept.parameters
        drawn = torch.where(happens < chance, torch.addcmul(low, value, span), otherwise)
        area, shape, place, flip, factors, keys, sigma, threshold, channels = drawn.split(
            [TRIES, 2 * TRIES, 2, 2, 5, 5, 1, 1, drawn.shape[1] - 3 * TRIES - 16], 1
        )
        return Drawn(
            box=boxes(area, shape.unflatten(1, (TRIES, 2)), place, kept.lines.sides, kept.middle),
            flip=flip,
            factors=factors,
            # The place of an operation: how many have smaller keys.
            places=(keys[:, None] < keys[:, :, None]).sum(2),
            sigma=sigma.squeeze(1),
            threshold=threshold.squeeze(1),
            channels=channels,
        )

    def _parameters(self, height: int, width: int) -> list[_Parameter]:
        """The parameters of a view in the order in which `draw` splits them."""
        low, high = (height * width * each for each in self.crop.scale)
        made = [_Parameter(number, low, high) for number in range(TRIES)]
        # Height and width by the logarithms of their ratio to the root of the area.
        low, high = (0.5 * math.log(each) for each in self.crop.ratio)
        for number in range(TRIES, 2 * TRIES):
            made += [_Parameter(number, -low, -high), _Parameter(number, low, high)]
        top, left, *colors = range(2 * TRIES, 2 * TRIES + 6)
        *keys, flip, jitter, gray, blur, sigma, solarize = range(2 * TRIES + 6, DRAWN)
        made += [_Parameter(top), _Parameter(left)]
        made += [_Parameter(flip, 1.0, 1.0, chance, flip) for chance in (0.0, self.flip)]
        # The factors of colors, and keys whose order is that of the operations: gray has the greatest.
        chance, factors = self.jitter_chance, self.factors
        *three, turn = (
            _Parameter(number, low, high, chance, jitter, none)
            for number, (low, high), none in zip(colors, factors, (1, 1, 1, 0), strict=True)
        )
        made += [*three, _Parameter(gray, 0.0, 0.0, self.gray, gray, 1.0), turn]
        *three, turn = map(_Parameter, keys)
        made += [*three, _Parameter(gray, 2.0, 2.0), turn]
        low, high = self.sigmas
        made += [_Parameter(sigma, low, high, self.blur, blur)]
        bright = (self.threshold - 0.5) / 255
        made += [_Parameter(solarize, bright, bright, self.solarize, solarize, 2.0)]
        if (each := self.channels) is not None:
            ranges = [each.brightness] * len(self.mean) + [each.contrast] * len(self.mean)
            made += [
                _Parameter(number, low, high, each.p, DRAWN, 1.0)
                for number, (low, high) in enumerate(ranges, DRAWN + 1)
            ]
        return made

    def _kept(self, device: torch.device, height: int, width: int) -> _Constants:
        key = (device, height, width)
        if self._last is None or self._last[0] != key:
            made = self._parameters(height, width)

            def on_device(values: Sequence[Any]) -> Tensor:
                return torch.tensor(values, dtype=torch.float32, device=device)

            numbers = [each.number for each in made] + [each.of for each in made]
            # Numbers are whole below 2^24: powers of 2 round nothing.
            values = [
                (p.low, (p.high - p.low) / RANGE, p.chance * RANGE, p.otherwise) for p in made
            ]
            reach = math.ceil(3 * self.sigmas[1])
            std = on_device(self.std)[:, None, None]
            constants = _Constants(
                counters=_counters(torch.tensor(numbers, device=device)),
                parameters=on_device(values).T.contiguous(),
                middle=on_device(middle(height, width, self.crop.ratio)),
                lines=Lines.of((height, width), self.size, device),
                mixing=mixing(len(self.mean)).to(device),
                blur=Blur.of(reach, self.size, device),
                scale=1 / std,
                shift=-on_device(self.mean)[:, None, None] / std,
            )
            self._last = key, constants
        return self._last[1]


def uniforms(seeds: Tensor, count: int) -> Tensor:
    """(n, count) uniform numbers in [0, 1), float32, by SplitMix64: the same on every device.

    Args:
        seeds: (n,) long.
        count: How many numbers of each seed.

    Source:
        Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014).
    """
    return _hashed(seeds[:, None] + _counters(torch.arange(count, device=seeds.device))) / RANGE


def _counters(numbers: Tensor) -> Tensor:
    """The numbers that are added to a seed to get its random numbers at these places."""
    return (numbers + 1) * -0x61C8864680B583EB


def _hashed(x: Tensor) -> Tensor:
    """Whole numbers below RANGE, float32, of sums of seeds and counters."""
    x = (x ^ _shifted(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _shifted(x, 27)) * -0x6B2FB644ECCEEE15
    x = x ^ _shifted(x, 31)
    return _shifted(x, 40).float()


def _shifted(x: Tensor, by: int) -> Tensor:
    """Bits shifted to the right, with zeros filled in."""
    return (x >> by) & ((1 << 64 - by) - 1)


def boxes(area: Tensor, shape: Tensor, place: Tensor, sides: Tensor, middle: Tensor) -> Tensor:
    """(n, 4) top, left, height and width of random crops, drawn like torchvision's RandomResizedCrop.

    Args:
        area: (n, TRIES) in pixels.
        shape: (n, TRIES, 2) the logarithms of height and width over the root of the area.
        place: (n, 2) uniform numbers for top and left.
        sides: (2,) height and width of the images, in pixels.
        middle: (4,) the box of an image for which no try fits.
    """
    tried = (area.sqrt()[:, :, None] * shape.exp()).round()
    any_fits, first = ((tried > 0) & (tried <= sides)).all(2).max(1, keepdim=True)
    taken = tried.gather(1, first[:, :, None].expand(-1, -1, 2)).squeeze(1)
    room = sides - taken
    start = torch.addcmul(place, place, room).floor().minimum(room)
    return torch.where(any_fits, torch.cat([start, taken], 1), middle)


def middle(height: int, width: int, ratio: Sequence[float]) -> tuple[int, int, int, int]:
    """Top, left, height and width of the largest center crop of an allowed aspect ratio."""
    tall, wide = height, width
    if width / height < ratio[0]:
        tall = round(width / ratio[0])
    elif width / height > ratio[1]:
        wide = round(height * ratio[1])
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def crop_weights(box: Tensor, flip: Tensor, lines: Lines) -> Sequence[Tensor]:
    """Weights of rows and of columns, both (n, k, l), that crop, resize and flip n images.

    The weights are bilinear, with antialiasing where a crop is reduced, as in PIL and torchvision.

    Args:
        box: (n, 4) top, left, height and width, as `Drawn` has them.
        flip: (n, 2) 1 where rows and columns are flipped, else 0.
        lines: Of images and views; what is beyond the shorter side has no meaning.
    """
    start, length = box.view(-1, 2, 2, 1, 1).unbind(1)  # (n, 2, 1, 1): of rows and of columns
    step = length / lines.size
    away = lines.places - start
    away = away.masked_fill((away < 0) | (away > length), math.inf)
    centers = torch.lerp(lines.centers, lines.mirrored, flip[:, :, None, None])
    distance = torch.addcmul(away, centers, step, value=-1).abs_()
    weights = (step.clamp_min(1) - distance).clamp_min_(0)
    return weights.div_(weights.sum(3, keepdim=True)).unbind(1)


def resampled(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(n, c, h, w) images whose rows and columns are weighted sums.

    Args:
        x: (n, c, height, width), of bytes or of floats.
        rows: (n, h, height).
        columns: (n, w, width).
    """
    n, c, height, width = x.shape
    # One product for all channels, which lie side by side.
    x = x.transpose(1, 2).to(rows.dtype, memory_format=torch.contiguous_format)
    x = torch.bmm(rows, x.reshape(n, height, c * width))
    x = torch.bmm(x.view(n, -1, width), columns.mT)
    return x.view(n, rows.shape[1], c, -1).transpose(1, 2).contiguous()


def mixing(channels: int) -> Tensor:
    """(5, 2 c c) matrices for colors: the identity, and the change by a unit of each factor.

    A row is (c, 2, c): each channel's weights of a pixel's channels, and of the channels' means.
    """
    c = channels
    same = torch.eye(c, dtype=torch.float32)
    gray = same.new_tensor(LUMINANCE if c == 3 else [1.0] * c).expand(c, c)
    gray = (RANGE * gray).round() / RANGE  # so that 1 - (1 - gray) is gray, equal in all channels
    none = torch.zeros_like(same)
    parts = [(same, none), (same, none), (same, -gray), (same - gray, none), (same - gray, none)]
    return torch.stack([torch.stack(both, 1).flatten() for both in parts])


def jittered(
    x: Tensor, factors: Tensor, places: Tensor, mixing: Tensor, *, turns: bool = True
) -> Tensor:
    """Images with changed brightness, contrast, saturation and hue (torchvision's ColorJitter), or gray.

    Args:
        x: (n, c, h, w) in [0, 1], of 3 channels, or of 1, which has neither saturation nor hue.
        factors: (n, 5) as `Drawn` has them.
        places: (n, 5) as `Drawn` has them.
        mixing: (5, 2 c c) of `mixing`.
        turns: Whether anything but gray changes.
    """
    n, c, *shape = x.shape
    x = x.reshape(n, c, -1)
    hue_at = places[:, HUE:]
    # The hue costs most and is turned once for all.  What comes before it has the slots 0, 1 and 2, what
    # comes after it 3, 4 and 5, and gray 6: an image that has nothing in a slot is multiplied by 1.
    slot = places[:, :HUE].add(places[:, :HUE] > hue_at, alpha=2)
    has = slot[:, None] == torch.arange(7, device=x.device)[:, None]
    amount = has * (factors[:, None, :HUE] - 1)
    changes = torch.addmm(mixing[0], amount.flatten(0, 1), mixing[1:]).view(n, 7, c, 2, c)
    of_pixels, of_means = changes.unbind(3)
    for number in range(6) if turns else ():
        if number == 3 and c == 3:
            x = hue_turned(x, factors[:, HUE])
        means = of_means[:, number].bmm(x.mean(2, keepdim=True))
        x = torch.baddbmm(means, of_pixels[:, number], x).clamp_(0, 1)
    return of_pixels[:, 6].bmm(x).view(n, c, *shape)


def hue_turned(x: Tensor, turn: Tensor) -> Tensor:
    """(n, 3, pixels) whose hues are turned; saturation and value in HSV stay.

    Args:
        x: (n, 3, pixels) in [0, 1].
        turn: (n,) parts of a whole turn.
    """
    red, green, blue = x.split(1, 1)
    high, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    chroma = high - low
    # In sixths of a turn from green, -3 to 3: its size is the same for a color and its mirror image.
    size = (red + blue).sub_(green).sub_(low).div_(chroma.clamp_min(1e-12)).add_(1)
    hue = size.copysign_(blue - red).add(turn[:, None, None], alpha=6).remainder_(6)
    # How far below the highest a channel is: by its hue's distance from that where it is lowest.
    below = hue + torch.arange(-1, -6, -2, device=x.device)[:, None]
    below = below.abs_().sub_(3).abs_().clamp_(1, 2)
    return torch.addcmul(high + chroma, chroma, below, value=-1)


def blurred(x: Tensor, sigma: Tensor, blur: Blur) -> Tensor:
    """Images after a Gaussian blur.

    Args:
        x: (n, c, h, w).
        sigma: (n,) pixels; below 0.1 an image stays as it is.
        blur: The filters for lines of h and of w pixels.
    """
    weights = (blur.logarithms / sigma[:, None].clamp_min(0.01).square()).softmax(1)
    lines = {k: (weights @ read).view(-1, k, k) for k, read in blur.reads.items()}
    return resampled(x, *(lines[k] for k in x.shape[-2:]))

"""Digits on colored grounds, without a download."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import checked, whole
from ccl_plugins.datasets.annotated import InMemory
from ccl_plugins.datasets.splitting import between, check_split, hold_out
from ccl_plugins.protocols import ValueType

INKED = 0.4
"""The ink above which a pixel belongs to the stroke."""

BOUNDS = {
    "ink": (0.29, 0.32),
    "slant": (-0.09, 0.01),
    "width": (0.52, 0.60),
    "side": (3.44, 3.68),
    "balance": (3.33, 3.62),
}
"""The tertiles of each measure over scikit-learn's digits of 8x8 pixels."""

COLUMNS = ("holes", *BOUNDS)

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

HUES = ("red", "green", "blue", "cyan", "magenta", "yellow", "gray")
"""The names of hues, by the ids of the column ``hue``."""

SHADES = ("dark", "light")
"""The names of shades, by the ids of the column ``shade``."""

GRAY = 0.238
"""A color is gray if its largest and smallest channel differ by less: a seventh of the RGB cube."""

TEMPLATES = (
    "{a} {digit} on a {shade} {hue} ground",
    "the digit {digit} on {shade} {hue}",
    "{shade} {hue} ground behind {a} {digit}",
    "a {shade} {hue} picture of the digit {digit}",
)
"""The forms of captions; each image has one of them."""


@dataclass(eq=False, repr=False)
class ColorDigits:
    """Handwritten digits on grounds of one random color each, without a download.

    scikit-learn's 1797 digits of 8x8 pixels, enlarged, in black: ``pixel = ground * (1 - ink)``.  The
    color is uniform in the RGB cube, independent of the digit, and drawn once for each image: a
    sensitive attribute that is independent of the class. By default 1437 images train and 360 test.

    Columns: ``label`` and ``digit``, 0 to 9 (equal; one to evaluate on, one to condition on);
        ``color``, (N, 3) float32 in [0, 1]; and weak labels, 0 to 2, measured on the stroke:
    ``holes``, ``ink``, ``slant``, ``width``, ``side`` and ``balance``.

    With ``captions`` each image has a text too, in the column of texts ``caption``, such as "a seven on a
    dark green ground": one of four forms, drawn once for each image.  The words of the color are columns:
    ``hue``, red, green, blue, cyan, magenta, yellow or gray, each for one seventh of the cube; ``shade``,
    dark or light, each for half of the cube; and both as ``color_name``, such as "dark green".
    `named_colors` has the rules.

    Args:
        seed: Seed of the colors and of the split.
        test_fraction: The part of each class that is kept for testing, between 0 and 1.
        size: Height and width of the images in pixels, 1 to 512.
        captions: Whether there are captions, and the columns of the words of the color.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a class would have no image in a split.

    Source:
        The colored backgrounds follow ColorMNIST in Tsai et al., Conditional Contrastive Learning with
        Kernel (2022), appendix F.4, which draws from ten noisy colors.  Digits: Alpaydin and Kaynak,
        Optical Recognition of Handwritten Digits (1998), through scikit-learn.
    """

    seed: int = checked(whole, least=0, default=0)
    test_fraction: float = checked(between, default=0.2)
    size: int = checked(whole, least=1, most=512, default=32)
    captions: bool = False

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        all_ink, all_labels, rows = read_digits(split, self.test_fraction, self.seed)
        # Colors are drawn for all images, so that the split does not change them.
        generator = torch.Generator().manual_seed(self.seed)
        color = torch.rand(len(all_labels), 3, generator=generator)[rows]
        ink, label = all_ink[rows], all_labels[rows]
        columns = {"label": label, "digit": label, "color": color, **measure_strokes(ink)}
        images = inked(ink, color[:, :, None, None], self.size)
        if not self.captions:
            return InMemory(images, label, columns)
        hue, shade = named_colors(color)
        form = torch.randint(len(TEMPLATES), (len(all_labels),), generator=generator)[rows]
        names = {"hue": hue, "shade": shade, "color_name": len(SHADES) * hue + shade}
        words = {"label": [*DIGITS], "digit": [*DIGITS], "hue": [*HUES], "shade": [*SHADES]}
        words["color_name"] = [f"{shade} {hue}" for hue in HUES for shade in SHADES]
        texts = {"caption": _captions(label, hue, shade, form)}
        return InMemory(images, label, {**columns, **names}, words, texts)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {
            "label": "categorical",
            "digit": "categorical",
            "color": "continuous",
            **dict.fromkeys((*COLUMNS, *self._named), "categorical"),
        }

    def texts(self) -> Sequence[str]:
        """The columns of texts: ``("caption",)`` with captions."""
        return ("caption",) if self.captions else ()

    @property
    def _named(self) -> tuple[str, ...]:
        return ("hue", "shade", "color_name") if self.captions else ()


def read_digits(split: str, test_fraction: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ink (N, 8, 8) in [0, 1] and labels (N,) of scikit-learn's digits, and the rows of a split.

    Raises:
        ValueError: For another split, and if a class would have no image in it.
    """
    check_split(split)
    ink, label = _all_digits()
    return ink, label, hold_out(label, test_fraction, seed)[split]


@functools.cache
def _all_digits() -> tuple[Tensor, Tensor]:
    """Ink and labels, read once: parsing scikit-learn's file takes most of the time of a split."""
    # Late: composing a pipeline does not need scikit-learn.
    from sklearn.datasets import load_digits

    digits = load_digits()
    return torch.from_numpy(digits.images).float() / 16, torch.from_numpy(digits.target).long()


def named_colors(color: Tensor) -> tuple[Tensor, Tensor]:
    """The hue, a place in `HUES`, and the shade, one in `SHADES`, of colors, (n,) each.

    Gray: the largest and the smallest channel differ by less than `GRAY`.  Red, green, blue: the name of
    the largest channel, if the middle one is nearer to the smallest.  Cyan, magenta, yellow: else, the
    mixture of the two larger ones.  Dark: the mean of the largest and the smallest channel is below 0.5.

    Args:
        color: (n, 3) red, green and blue in [0, 1].
    """
    low, middle, high = color.sort(dim=1).values.unbind(1)
    mixed = middle - low > high - middle
    hue = torch.where(mixed, 3 + color.argmin(1), color.argmax(1))
    return hue.masked_fill(high - low < GRAY, HUES.index("gray")), (low + high >= 1).long()


def _captions(*places: Tensor) -> list[str]:
    """A caption for each image, of places (n,) in `DIGITS`, `HUES`, `SHADES` and `TEMPLATES`."""
    rows = zip(*(ids.tolist() for ids in places), strict=True)
    return [
        TEMPLATES[f].format(
            a="an" if DIGITS[d] == "eight" else "a", digit=DIGITS[d], hue=HUES[h], shade=SHADES[s]
        )
        for d, h, s, f in rows
    ]


def inked(ink: Tensor, ground: Tensor, size: int) -> Tensor:
    """Black strokes on grounds, (n, 3, size, size) uint8.

    Args:
        ink: (n, height, width) in [0, 1], 1 where the stroke is.
        ground: (n, 3, size, size) in [0, 1], or (n, 3, 1, 1), a color each.
        size: Height and width of the result.
    """
    # Bilinear does not overshoot, so the ink stays in [0, 1].
    ink = functional.interpolate(
        ink[:, None], size=(size, size), mode="bilinear", align_corners=False, antialias=True
    )
    return (255 * ground * (1 - ink)).round().to(torch.uint8)


def measure_strokes(ink: Tensor) -> dict[str, Tensor]:
    """Six columns of class ids 0, 1 and 2, (n,) each.

    ``holes``: parts of the ground that the stroke encloses, at most 2.  The others are low, middle or
    high: ``ink``, the mean ink; ``slant``, how far the stroke leans to the right; ``width``, relative to
    the height; ``side`` and ``balance``, how far right and how far down the stroke's center is.

    Args:
        ink: (n, 8, 8) in [0, 1], 1 for the stroke; every image has some.
    """
    from scipy import ndimage  # late, like scikit-learn

    place = torch.arange(ink.shape[-1], dtype=ink.dtype)
    weight = ink / ink.sum((1, 2), keepdim=True)
    side, balance = (weight.sum(1) * place).sum(1), (weight.sum(2) * place).sum(1)
    across, down = place - side[:, None], place - balance[:, None]
    wide = (weight.sum(1) * across.square()).sum(1)
    high = (weight.sum(2) * down.square()).sum(1)
    leaning = -torch.einsum("nij,ni,nj->n", weight, down, across) / high
    measured = {
        "ink": ink.mean((1, 2)),
        "slant": leaning,
        "width": (wide / high).sqrt(),
        "side": side,
        "balance": balance,
    }
    # Holes are the parts of the ground that no path over the sides of pixels connects to the border.
    ground = np.pad(ink.numpy() <= INKED, [(0, 0), (1, 1), (1, 1)], constant_values=True)
    sides = np.zeros((3, 3, 3), dtype=bool)
    sides[1] = ndimage.generate_binary_structure(2, 1)  # no neighbors in other images
    # Parts are numbered image by image.
    last = ndimage.label(ground, sides)[0].max((1, 2))
    holes = torch.from_numpy(np.diff(last, prepend=0)).long() - 1
    return {"holes": holes.clamp_max(2)} | {
        name: torch.bucketize(values, torch.tensor(BOUNDS[name], dtype=values.dtype))
        for name, values in measured.items()
    }

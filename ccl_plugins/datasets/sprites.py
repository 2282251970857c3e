"""Drawn shapes of known size, angle, place and color, as many as are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ccl_plugins.arguments import SHARPEST, checked, matrix, whole
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.datasets.splitting import SPLITS, check_split
from ccl_plugins.protocols import ValueType

SHAPES = ("triangle", "ell", "tee")
"""The names of shapes, by their ids. No rotation maps a shape to itself, except a full one."""

SCALES = (0.35, 0.6)
"""The least and the largest half side of a shape, in parts of the image's half side."""

DARKEST = 0.25
"""The least share of a color's largest channel, so that a shape can be seen on black."""


@dataclass(eq=False, repr=False)
class Sprites:
    """One shape on black in each image, with the five quantities that define it.

    The quantities are random and independent of each other, and the image shows all of them. Images
    are drawn when they are read, so a hundred million images need only the memory of their columns,
    44 bytes a sample. Augmentations such as rotations, crops and color jitter destroy the quantity
    that they change.

    Columns: ``label`` and ``shape``, 0 to 2 (equal; one to evaluate on, one to condition on);
        ``scale``, half the side of the shape, from .35 to .6 of the image's half side; ``angle``,
        (N, 2) the
    cosine and the sine; ``place``, (N, 2) the center, right and down from the middle, in half sides;
    ``color``, (N, 3) in [0, 1].

    Args:
        train: The number of training samples.
        test: The number of test samples.
        size: Height and width of the images in pixels, 8 or more; all images of a split have at
            most 2^32 numbers.
        seed: Seed of the quantities.

    Raises:
        ValueError: If a number is out of its range.

    Source:
        After Matthey et al., dSprites (2017), whose shapes look the same after some rotations and
        have no color.
    """

    train: int = checked(whole, least=2, default=10_000)
    test: int = checked(whole, least=2, default=2_000)
    size: int = checked(whole, least=8, most=SHARPEST, default=32)
    seed: int = checked(whole, least=0, default=0)

    def __post_init__(self) -> None:
        for name in SPLITS:
            matrix((name, getattr(self, name)), ("3 size^2", 3 * self.size**2))

    def __call__(self, split: str) -> Annotated:
        """The ``"train"`` or ``"test"`` split."""
        n = getattr(self, check_split(split))
        generator = torch.Generator().manual_seed(2 * self.seed + (split == "test"))

        def draw(columns: int) -> Tensor:
            return torch.rand(n, columns, generator=generator)

        shape = torch.randint(len(SHAPES), (n,), generator=generator)
        scale = SCALES[0] + (SCALES[1] - SCALES[0]) * draw(1)
        turn = 2 * math.pi * draw(1)
        place = (2 * draw(2) - 1) * (1 - scale)  # the whole shape is inside, but for its corners
        color = draw(3)
        color *= (DARKEST + (1 - DARKEST) * draw(1)) / color.amax(1, keepdim=True).clamp_min(1e-3)
        columns = {
            "label": shape,
            "shape": shape,
            "scale": scale.squeeze(1),
            "angle": torch.cat([turn.cos(), turn.sin()], 1),
            "place": place,
            "color": color,
        }
        words = {"label": [*SHAPES], "shape": [*SHAPES]}
        return Annotated(Drawn(columns, self.size), columns, words)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {
            **dict.fromkeys(("label", "shape"), "categorical"),
            **dict.fromkeys(("scale", "angle", "place", "color"), "continuous"),
        }


class Drawn:
    """The images of shapes, (3, size, size) uint8, drawn as they are read.

    Args:
        columns: ``shape``, ``scale``, ``angle``, ``place`` and ``color``, as `Sprites` has them.
        size: Height and width in pixels.
    """

    def __init__(self, columns: Mapping[str, Tensor], size: int) -> None:
        self.columns = {
            name: columns[name] for name in ("shape", "scale", "angle", "place", "color")
        }
        self.size = size

    def __len__(self) -> int:
        return len(self.columns["shape"])

    def __getitem__(self, index: int) -> Tensor:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} images, but none at {index}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Tensor]:
        """Some images, drawn together."""
        rows = torch.tensor(indices)
        return [
            *draw(**{name: column[rows] for name, column in self.columns.items()}, size=self.size)
        ]


def draw(
    shape: Tensor, scale: Tensor, angle: Tensor, place: Tensor, color: Tensor, size: int
) -> Tensor:
    """Shapes on black, (n, 3, size, size) uint8, with edges a pixel wide.

    Args:
        shape: (n,) ids, places in `SHAPES`.
        scale: (n,) half the shapes' side, in half sides of the image.
        angle: (n, 2) cosine and sine.
        place: (n, 2) their centers, right and down from the middle.
        color: (n, 3) in [0, 1].
        size: Height and width in pixels.
    """
    line = (2 * torch.arange(size) + 1) / size - 1
    across, down = (line - place[:, :1])[:, None], (line - place[:, 1:])[:, :, None]
    cosine, sine = angle.unsqueeze(-1).unsqueeze(-1).unbind(1)
    half = scale[:, None, None]
    # Where a pixel lies on the shape before it is scaled, turned and moved: from -1 to 1.
    x, y = (cosine * across + sine * down) / half, (cosine * down - sine * across) / half
    outside = torch.stack([_triangle(x, y), _ell(x, y), _tee(x, y)])
    distance = outside[shape, torch.arange(len(shape))] * half * size / 2  # in pixels
    covered = (0.5 - distance).clamp(0, 1)
    return (255 * covered[:, None] * color[:, :, None, None]).round().to(torch.uint8)


def _box(x: Tensor, y: Tensor, left: float, right: float, top: float, bottom: float) -> Tensor:
    """The signed distance of points from a box: above 0 outside, below 0 inside."""
    wide, high = (x - (left + right) / 2).abs(), (y - (top + bottom) / 2).abs()
    return torch.maximum(wide - (right - left) / 2, high - (bottom - top) / 2)


def _triangle(x: Tensor, y: Tensor) -> Tensor:
    # Two equal sides meet at (0, -0.9); the third is at y = 0.8, from -0.6 to 0.6.
    side = (1.7 * x.abs() - 0.6 * (y + 0.9)) / math.hypot(1.7, 0.6)
    return torch.maximum(side, y - 0.8)


def _ell(x: Tensor, y: Tensor) -> Tensor:
    return torch.minimum(_box(x, y, -0.6, -0.1, -0.9, 0.9), _box(x, y, -0.6, 0.6, 0.4, 0.9))


def _tee(x: Tensor, y: Tensor) -> Tensor:
    return torch.minimum(_box(x, y, -0.25, 0.25, -0.9, 0.9), _box(x, y, -0.8, 0.8, -0.9, -0.4))

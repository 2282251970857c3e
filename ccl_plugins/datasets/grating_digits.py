"""Digits on gratings, which the usual augmentations do not remove."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, non_negative, positive, whole
from ccl_plugins.datasets.annotated import InMemory
from ccl_plugins.datasets.color_digits import (
    COLUMNS,
    DIGITS,
    inked,
    measure_strokes,
    read_digits,
)
from ccl_plugins.datasets.splitting import between
from ccl_plugins.protocols import ValueType

MEAN = 0.6
"""The brightness of grounds without a grating."""


@dataclass(eq=False, repr=False)
class GratingDigits:
    """Handwritten digits on gray gratings of one random angle each, without a download.

    scikit-learn's 1797 digits of 8x8 pixels, enlarged, in black: ``pixel = ground * (1 - ink)`` on
    ``ground = 0.6 + contrast * sin(2 pi (x cos a + y sin a) / period + phase)``, with x to the right and y
    down in pixels.  The angle a, in [0, pi), and the phase are uniform, independent of the digit, and drawn
    once for each image. The angle is a sensitive attribute, independent of the class. Color jitter,
    gray, blur and crops do not remove it, but rotations do. By default 1437 images train and 360
    test.

    Columns: ``label`` and ``digit``, 0 to 9 (equal; one to evaluate on, one to condition on);
        ``angle``, (N, 2) the cosine and the sine of 2a, because a grating rotated by pi is the
        same; ``phase``, (N, 2) its
    cosine and sine; and the weak labels of ``color_digits``, measured on the stroke: ``holes``, ``ink``,
    ``slant``, ``width``, ``side`` and ``balance``.

    Args:
        contrast: Amplitude of the wave, from 0 to .4; 0: no grating.
        period: Pixels from crest to crest, 2 or more.
        seed: Seed of the gratings and of the split.
        test_fraction: The part of each class that is kept for testing, between 0 and 1.
        size: Height and width of the images in pixels, 1 to 512.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a class would have no image in a split.

    Source:
        Our own.  Digits: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits (1998), through
        scikit-learn.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"size": 8}

    contrast: float = checked(non_negative, default=0.32)
    period: float = checked(positive, default=5.0)
    seed: int = checked(whole, least=0, default=0)
    test_fraction: float = checked(between, default=0.2)
    size: int = checked(whole, least=1, most=512, default=32)

    def __post_init__(self) -> None:
        if self.contrast > 1 - MEAN:
            raise ValueError(
                f"contrast must be from 0 to {1 - MEAN:g}, which keeps pixels in range, not"
                f" {self.contrast!r}"
            )
        if self.period < 2:
            raise ValueError(f"period must be 2 pixels or more, not {self.period!r}")

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        all_ink, all_labels, rows = read_digits(split, self.test_fraction, self.seed)
        # Drawn for all images, so that the split does not change them.
        generator = torch.Generator().manual_seed(self.seed)
        angle, phase = torch.rand(2, len(all_labels), generator=generator)[:, rows]
        angle, phase = math.pi * angle, 2 * math.pi * phase
        ink, label = all_ink[rows], all_labels[rows]
        ground = MEAN + self.contrast * wave(angle, phase, self.period, self.size)
        columns = {"label": label, "digit": label}
        columns |= {"angle": on_circle(2 * angle), "phase": on_circle(phase)}
        columns |= measure_strokes(ink)
        words = {"label": [*DIGITS], "digit": [*DIGITS]}
        images = inked(ink, ground[:, None].expand(-1, 3, -1, -1), self.size)
        return InMemory(images, label, columns, words)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {
            **dict.fromkeys(("label", "digit", *COLUMNS), "categorical"),
            **dict.fromkeys(("angle", "phase"), "continuous"),
        }


def wave(angle: Tensor, phase: Tensor, period: float, size: int) -> Tensor:
    """Plane waves, (n, size, size) from -1 to 1.

    Args:
        angle: (n,) the direction in which a wave runs, from right to down.
        phase: (n,) the phase at the first pixel.
        period: Pixels from crest to crest.
        size: Height and width.
    """
    place = torch.arange(size, dtype=angle.dtype)
    across, down = place * angle.cos()[:, None], place * angle.sin()[:, None]
    way = across[:, None, :] + down[:, :, None]
    return (2 * math.pi * way / period + phase[:, None, None]).sin()


def on_circle(angle: Tensor) -> Tensor:
    """(n, 2) the cosine and the sine."""
    return torch.stack([angle.cos(), angle.sin()], 1)

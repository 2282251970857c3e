"""Write what fairness.toml and weak_supervision.toml read: CIFAR-10 with gratings, and hints at classes.

``python examples/reproduction/gpu/data.py`` reads torchvision's CIFAR-10 in ``data``, with ``--download``
downloads it, and writes into ``data/planted``:

- ``gratings.csv`` and a PNG file for each image, with a gray grating of a random angle mixed into it.  The
  angle says nothing of the class, and color jitter, gray, blur and crops leave it; flips do not.  The
  columns ``angle_0`` and ``angle_1`` are the cosine and the sine of twice the angle, since a grating that
  is turned by half a turn is the same.
- ``hints.npy``, (50000, 2), two noisy numbers for each training image: the ten classes lie on a circle of
  radius 1, and an image has its class's place and Gaussian noise of deviation 0.3.  The nearest place is
  that of the own class for 70 % of the images.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ccl_plugins.datasets import TorchVision
from ccl_plugins.datasets.grating_digits import on_circle, wave

MIX, PERIOD, NOISE = 0.3, 5.0, 0.3
"""The grating's part of a pixel, pixels from crest to crest, and the deviation of a hint."""


def with_gratings(images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images (n, 3, size, size) uint8 with a grating each, and (n, 2) the angles of the gratings."""
    angle, phase = torch.rand(2, len(images), generator=generator)
    angle, phase = math.pi * angle, 2 * math.pi * phase
    grating = 127.5 + 127.5 * wave(angle, phase, PERIOD, images.shape[-1])
    mixed = (1 - MIX) * images + MIX * grating[:, None]
    return mixed.round().to(torch.uint8), on_circle(2 * angle)


def hints_of(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Two noisy numbers (n, 2) for each class id of ten."""
    places = on_circle(2 * math.pi * labels / 10)
    return places + NOISE * torch.randn(len(labels), 2, generator=generator)


def write(root: Path, download: bool = False) -> None:
    """Write table, images and hints into ``root / "planted"``."""
    cifar10 = TorchVision("CIFAR10", root, download)
    generator = torch.Generator().manual_seed(0)
    out = root / "planted"
    rows: list[list[Any]] = [["image", "split", "label", "angle_0", "angle_1"]]
    for split in ("train", "test"):
        (out / split).mkdir(parents=True, exist_ok=True)
        samples: Any = cifar10(split)
        images, angles = with_gratings(samples.images, generator)
        for i, image in enumerate(images):
            file = f"{split}/{i:05}.png"
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(out / file)
            rows.append([file, split, int(samples.targets[i]), *angles[i].tolist()])
        if split == "train":
            np.save(out / "hints.npy", hints_of(samples.targets, generator).numpy())
    with (out / "gratings.csv").open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows(rows)


if __name__ == "__main__":
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of CIFAR-10")
    parser.add_argument(
        "--download", action="store_true", help="download CIFAR-10 if it is missing"
    )
    options = parser.parse_args()
    write(options.root, options.download)

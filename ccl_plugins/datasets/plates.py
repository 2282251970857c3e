"""Drawn cells under five stains, on plates of several sites, as many as are asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import SHARPEST, checked, fraction, matrix, non_negative, whole, word
from ccl_plugins.datasets.annotated import InMemory
from ccl_plugins.datasets.splitting import SPLITS, check_split
from ccl_plugins.protocols import ValueType

MECHANISMS, SITES, PLATES, STAINS, CELLS = 4, 5, 4, 5, 6
"""Numbers of classes, sites (the last is new), plates per site, channels, and the most cells per image."""

CELL_RANGES = {
    "radius": (0.22, 0.42),  # of a cell, in half sides of the image
    "length": (1.0, 1.7),  # the long radius over the mean one
    "nucleus": (0.25, 0.75),  # its radius over the cell's
    "membrane": (0.1, 0.4),  # its width over the radius
    "grains": (4.0, 12.0),  # waves per radius, in radians
    "fibers": (2.0, 7.0),
    "crowd": (0.3, 1.0),  # the part of the places for cells that are taken
}
"""The traits that a mechanism changes, with their ranges."""


@dataclass(eq=False, repr=False)
class Plates:
    """Cells under five stains, on plates of several sites with batch effects.

    The cells are drawn, a few in each image. A *mechanism*, the label, changes how they look: their
    size, length, nucleus, membrane, grains, fibers and number. Each *compound* has a mechanism with
    a variation of its own; a few compounds are frequent, and many are rare. The *dose* is the
    strength of the change. Each *plate* has a gain and an offset for each channel; each *site* has
    a gain too, and stripes in the background.

    In the training split, mechanism and site are correlated, as if each site tested one kind of
    compounds; in the test split they are independent. So features of the site predict the label in
    training, but not in testing.

    Columns: ``label`` and ``mechanism``, 0 to 3 (equal; one to evaluate on, one to condition on);
        ``compound``, class ids, at most 4 times ``compounds``; ``dose``, from .5 to 1; ``site``, 0
        to 3, and 4 for the new site; ``plate``, class ids, 4 of each site.

    Args:
        train: The number of training samples.
        test: The number of test samples.
        size: Height and width of the images in pixels, 8 or more; all images of a split have at
            most 2^32 numbers.
        compounds: The number of compounds of each mechanism; the k-th is drawn 1/k as often as the first.
        agreement: The share of training samples of mechanism i that come from site i, from .25
            (chance) to 1.
        effect: How strong batch effects are, 0 or more; 0: none.
        held_out: The sites of the test split: ``"sites"``, those of training; ``"validation"``, the
            same with other samples, to choose settings on; ``"new site"``, one that training does
            not have.
        seed: Seed of all effects and of all samples.

    Raises:
        ValueError: If a parameter is out of its range.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"train": 64, "test": 32, "size": 16}

    train: int = checked(whole, least=4, default=4096)
    test: int = checked(whole, least=4, default=1024)
    size: int = checked(whole, least=8, most=SHARPEST, default=32)
    compounds: int = checked(whole, least=1, default=250)
    agreement: float = checked(fraction, default=0.85)
    effect: float = checked(non_negative, default=1.0)
    held_out: Literal["sites", "validation", "new site"] = word("sites", "validation", "new site")
    seed: int = checked(whole, least=0, default=0)

    def __post_init__(self) -> None:
        for name in SPLITS:
            matrix((name, getattr(self, name)), ("3 size^2", 3 * self.size**2))
        if self.agreement < 1 / MECHANISMS:
            raise ValueError(f"agreement must be {1 / MECHANISMS} or more, not {self.agreement!r}")

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        n = getattr(self, check_split(split))
        held_out = "train" if split == "train" else self.held_out
        part = ("train", "sites", "validation", "new site").index(held_out)
        world = torch.Generator().manual_seed(8 * self.seed)
        traits = torch.rand(MECHANISMS, len(CELL_RANGES), generator=world)
        own = 0.12 * torch.randn(MECHANISMS * self.compounds, len(CELL_RANGES), generator=world)
        gains = torch.randn(SITES * (PLATES + 1), STAINS, generator=world)
        offsets = torch.rand(SITES * PLATES, STAINS, generator=world)
        stripes = torch.rand(SITES, 2 + STAINS, generator=world)

        generator = torch.Generator().manual_seed(8 * self.seed + 1 + part)
        often = 1 / torch.arange(1.0, self.compounds + 1)
        mechanism = torch.randint(MECHANISMS, (n,), generator=generator)
        rank = torch.multinomial(often, n, replacement=True, generator=generator)
        compound = MECHANISMS * rank + mechanism
        trained_sites = SITES - 1
        site = torch.randint(trained_sites, (n,), generator=generator)
        if split == "train":
            # By chance alone, one image in `trained_sites` is of its mechanism's own site.
            chance = 1 / trained_sites
            agree = torch.rand(n, generator=generator) < (self.agreement - chance) / (1 - chance)
            site = torch.where(agree, mechanism % trained_sites, site)
        if held_out == "new site":
            site = torch.full_like(site, trained_sites)
        plate = PLATES * site + torch.randint(PLATES, (n,), generator=generator)
        dose = 0.5 + 0.5 * torch.rand(n, generator=generator)
        unit = (
            traits[mechanism]
            + own[compound]
            + 0.08 * torch.randn(n, len(CELL_RANGES), generator=generator)
        )
        unit = (0.5 + dose[:, None] * (unit - 0.5)).clamp(0, 1)
        images = cells(unit, self.size, generator)
        gain = gains[plate] + gains[SITES * PLATES + site]
        gain = (0.3 * self.effect * gain).exp()[..., None, None]
        offset = 0.2 * self.effect * offsets[plate][..., None, None]
        ground = _stripes(stripes[site], self.size, generator)
        images = 0.6 * gain * images + offset + 0.2 * self.effect * ground
        images += 0.03 * torch.randn(images.shape, generator=generator)
        columns: dict[str, Tensor | list[str]] = {
            "label": mechanism,
            "mechanism": mechanism,
            "compound": compound,
            "dose": dose,
            "site": site,
            "plate": plate,
        }
        return InMemory((255 * images).round().clamp(0, 255).to(torch.uint8), mechanism, columns)

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        ids = ("label", "mechanism", "compound", "site", "plate")
        return {**dict.fromkeys(ids, "categorical"), "dose": "continuous"}


def cells(unit: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Images of cells, (n, 5, size, size) in [0, 1]: nucleus, body, membrane, grains and fibers.

    Args:
        unit: (n, traits) each trait's position in its range, from 0 to 1.
        size: Height and width in pixels.
        generator: Draws places, angles and the taken places.
    """
    n = len(unit)
    low, high = torch.tensor([*CELL_RANGES.values()]).T
    radius, length, nucleus, membrane, grains, fibers, crowd = (low + (high - low) * unit).T
    line = (2 * torch.arange(size) + 1) / size - 1
    image = torch.zeros(n, STAINS, size, size)
    for place in range(CELLS):
        center = 0.9 * (2 * torch.rand(n, 2, 1, 1, generator=generator) - 1)
        turn = (2 * math.pi * torch.rand(n, generator=generator))[:, None, None]
        taken = (torch.rand(n, generator=generator) < crowd) | (place == 0)
        across, down = line - center[:, 0], line[:, None] - center[:, 1]
        long, wide = (each[:, None, None] for each in (radius * length, radius / length))
        u = (turn.cos() * across + turn.sin() * down) / long
        v = (turn.cos() * down - turn.sin() * across) / wide
        distance = (u.square() + v.square()).sqrt()
        soft = 2 / (size * radius)[:, None, None]  # a pixel, in radii
        body = ((1 - distance) / soft + 0.5).clamp(0, 1)
        inner = ((nucleus[:, None, None] - distance) / soft + 0.5).clamp(0, 1)
        ring = (-((distance - 1) / membrane[:, None, None]).square()).exp()
        wave = grains[:, None, None]
        grain = body * ((wave * u).cos() * (wave * v).cos()).square()
        fiber = body * (0.5 + 0.5 * (fibers[:, None, None] * v).cos())
        cell = torch.stack([inner, body, ring, grain, fiber], 1) * taken[:, None, None, None]
        image = torch.maximum(image, cell)
    return image


def _stripes(stripes: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Stripes of a site, (n, 5, size, size) in [0, 1], with a random offset."""
    n = len(stripes)
    line = torch.arange(size) / size
    turn, often = math.pi * stripes[:, 0], 2 * math.pi * (2 + 4 * stripes[:, 1])
    begin = 2 * math.pi * torch.rand(n, generator=generator)
    way = (turn.cos()[:, None, None] * line + turn.sin()[:, None, None] * line[:, None]) * often[
        :, None, None
    ] + begin[:, None, None]
    return stripes[:, 2:, None, None] * (0.5 + 0.5 * way.cos()[:, None])

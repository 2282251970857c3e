"""Facts about the pixels of some images, for the data set, the transform and the backbone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2.functional import pil_to_tensor

from ccl_plugins.datasets.image_files import RANGED
from ccl_plugins.files.images import (
    Levels,
    Mode,
    Range,
    naming_errors,
    pages_in,
    proposed_levels,
    ranges_of,
    read_image,
    reading,
    written,
)
from ccl_plugins.files.pixels import Pixels, UnreadableImage

NAMED = 3
"""The most images whose faults an error lists."""

FEW = 1e-3
"""The share of an image's numbers that are clipped at each end if they are far from the others."""

FAR = 4.0
"""They are far if the range of all numbers is at least this multiple of the range of the others."""

MANY = 100_000
"""The approximate count of an image's numbers that this test reads."""

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """Facts about some images.

    Args:
        reading: The data set's ``mode``, ``levels`` and ``page``, if they are not the defaults.
        channels: The channels of an image after the transform.
        width: The median width, in pixels.
        height: The median height, in pixels.
        colors: Whether the channels are red, green and blue, or gray made of them.
        mean: The mean of each channel, for pixels in [0, 1]; empty for color images of 8 bits,
            which take ImageNet's or that of pretrained weights.
        std: The standard deviation of each channel, or empty.
        notes: The choices made from the images.
    """

    reading: dict[str, Any]
    channels: int
    width: int
    height: int
    colors: bool
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def look_at(
    paths: Sequence[str],
    source: str,
    mode: Mode | None = None,
    levels: Levels = None,
    page: int | None = None,
) -> Sample:
    """Read some images, spread over all, and choose how all are read.

    Args:
        paths: All images.
        source: The table or folder that lists them, for messages.
        mode: The data set's ``mode``; None: chosen.
        levels: The data set's ``levels``; None: the range of images of more than 8 bits.
        page: The data set's ``page``.

    Raises:
        ValueError: If no image can be read, with the first reasons, or if their channels differ.
    """
    reading(mode or "all", levels, page)  # refuses what the data set refuses
    kinds = _of_some(paths, source, lambda path: _kind(pages_in(path, "all", page)))
    color = all(each.color and not path.lower().endswith(".npy") for path, each in kinds.items())
    notes = []
    if mode is None:
        mode = "RGB" if color else "all"
    if mode == "all":
        notes.append(_of_channels(kinds, color, source))
    if levels is None and any(each.type != "uint8" for each in kinds.values()):
        levels = proposed_levels(ranges_of(kinds, mode, page)[0])
        if levels is not None:
            by_type = isinstance(levels, Mapping)
            ends: Any = levels if by_type else {"": levels}
            nearer = {name: _near(each, name, [*kinds.values()]) for name, each in ends.items()}
            if nearer != ends:
                notes.append(
                    f"fewer than one pixel of {1 / FEW:.0f} is far beyond the others, like a hot pixel,"
                    f" and is cut: levels = {written(ends, by_type)} keeps all"
                )
                ends, levels = nearer, nearer if by_type else nearer[""]
            notes.append(
                f"levels = {written(ends, by_type)} is the range of {len(kinds)} of"
                f" {len(paths)} images, which becomes black to white: --levels gives another"
            )
    how = reading(mode, levels, page)
    as_held = mode == "RGB" and levels is None
    sums = [kind.sums for kind in kinds.values() if as_held and kind.sums]
    if len(sums) < len(kinds):  # some images are read as other numbers than their files hold
        seen = _of_some(paths, source, lambda path: _sums(read_image(path, **how)), [*kinds])
        sums = [*seen.values()]
    count, total, squares = (torch.stack(each).sum(0) for each in zip(*sums, strict=True))
    mean = total / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt()
    flat = std < 1e-4
    for channel in flat.nonzero().flatten().tolist():
        notes.append(f"channel {channel} (from 0) has one value in all images that were looked at")
    plain = mode == "RGB" and all(each.color.startswith("RGB") for each in kinds.values())
    plain = plain and levels is None
    given = {"mode": mode, "levels": levels, "page": page}
    width, height = torch.tensor([each.size for each in kinds.values()]).median(0).values.tolist()
    return Sample(
        {name: value for name, value in given.items() if value not in (None, "RGB")},
        len(mean),
        width,
        height,
        mode == "RGB",
        [] if plain else _rounded(mean),
        [] if plain else _rounded(std.masked_fill(flat, 1.0)),
        notes,
    )


@dataclass(frozen=True)
class _Kind:
    pages: int
    channels: int
    color: str
    """The color of a single page, as a mode of Pillow; empty for other channels."""
    type: str
    size: tuple[int, int]
    most: tuple[float, float]
    """The range of the numbers, without the few far ones."""
    sums: tuple[Tensor, Tensor, Tensor] | None
    """`_sums` of an image that needs no conversion: red, green and blue of 8 bits."""


def _kind(pages: list[Pixels]) -> _Kind:
    values = pages[0].values
    flat = np.concatenate(
        [each.values.ravel()[:: max(1, each.values.size // MANY)] for each in pages]
    )
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        raise UnreadableImage("none of its pixels are numbers")
    low, high = np.quantile(flat, [FEW, 1 - FEW], method="nearest").tolist()
    color = pages[0].color if len(pages) == 1 else ""
    plain = color == "RGB" and values.dtype == np.uint8
    return _Kind(
        len(pages),
        sum(each.values.shape[-1] for each in pages),
        color,
        values.dtype.name,
        (values.shape[1], values.shape[0]),
        (low, high),
        _sums(torch.tensor(values).permute(2, 0, 1)) if plain else None,
    )


def _near(ends: Range, numbers: str, kinds: Sequence[_Kind]) -> Range:
    """The range without the few numbers that are far beyond all others, if there are such."""
    known = [each.most for each in kinds if numbers in ("", each.type)]
    low, high = min(each[0] for each in known), max(each[1] for each in known)
    far = low < high and ends[1] - ends[0] > FAR * (high - low)
    return (low, high) if far else ends


def _of_channels(kinds: dict[str, _Kind], color: bool, source: str) -> str:
    """What mode "all" reads; an error if images have more or fewer channels than others."""
    counts = Counter(each.channels for each in kinds.values())
    if len(counts) > 1:
        example = {each.channels: path for path, each in kinds.items()}
        named = " and ".join(f"{n} channels, such as {example[n]}" for n in sorted(counts))
        cure = 'mode = "RGB" makes three of all' if color else "keep those of one number alone"
        raise ValueError(f"the images of {source} differ: they have {named}; {cure}")
    pages = Counter(each.pages for each in kinds.values()).most_common(1)[0][0]
    several = f" in {pages} pages" if pages > 1 else ""
    (channels,) = counts
    return f'the images have {channels} channels{several}: mode = "all" reads all of them'


def _of_some(
    paths: Sequence[str], source: str, read: Callable[[str], T], first: Sequence[str] = ()
) -> dict[str, T]:
    """The contents of up to `RANGED` images, by path; unreadable images are left out."""
    wrong: dict[str, str] = {}

    def tried(path: str) -> T | None:
        try:
            with naming_errors():
                return read(path)
        except UnreadableImage as error:
            wrong[path] = str(error)
            return None

    places = np.linspace(0, len(paths) - 1, min(RANGED, len(paths))).round().astype(int)
    some = first or [paths[place] for place in dict.fromkeys(places.tolist())]
    with ThreadPoolExecutor() as pool:
        for these in (some, paths):  # all of them, where none of the first can be read
            todo = [path for path in dict.fromkeys(these) if path not in wrong]
            found = zip(todo, pool.map(tried, todo), strict=True)
            if known := {path: each for path, each in found if each is not None}:
                return {path: known[path] for path in [*known][:RANGED]}
    if not any(map(os.path.exists, wrong)):
        raise ValueError(
            f'none of the {len(paths)} images of {source} exists, such as {paths[0]}: root = "FOLDER"'
            " names the folder that the files are relative to"
        )
    reasons = "; ".join(f"{path}: {wrong[path]}" for path in [*dict.fromkeys(paths)][:NAMED])
    more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    raise ValueError(
        f"{len(wrong)} of {len(paths)} images of {source} cannot be read: {reasons}{more}"
    )


def _sums(image: Image.Image | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The number of pixels, and for each channel the sums of their values (0 to 1) and of the squares."""
    tensor = image if isinstance(image, Tensor) else pil_to_tensor(image)
    values = tensor.flatten(1).double() / 255
    return torch.tensor(float(values.shape[1])), values.sum(1), values.square().sum(1)


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.3g}") for value in values.tolist()]

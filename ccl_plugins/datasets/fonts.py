"""Letters in real typefaces, with the numbers that a font's file states."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import string
import struct
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from ccl_plugins.arguments import whole
from ccl_plugins.datasets.annotated import InMemory
from ccl_plugins.datasets.splitting import check_fraction, check_split
from ccl_plugins.protocols import ValueType

LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits

NUMBERS = ("weight", "width", "slant", "ink")

RANGES = ((1, 1000), (1, 9), (-90, 90))
"""The ranges of weight and width in OpenType, and of angles."""

REFERENCE = 128
"""The size in points at which a font is measured, before its final size is chosen."""

MARGIN = 1 / 16
"""White on each side of an image, as a part of its side."""


class Fonts:
    """Letters in the typefaces of a machine or of folders; whole families are held out for testing.

    Each font that has all letters gives one image per letter, black on white, with one channel. All
    letters of a font have the same size, at which its highest and its widest letter just fit; they
    stand on one line and are centered. Columns: ``label``, the letter; ``family`` and ``font``,
    class ids; and numbers of the font: ``weight``, 100 (thin) to 900 (black), 400 is regular;
    ``width``, 1 (condensed) to 9 (expanded), 5 is normal; ``slant``, degrees to the right; ``ink``,
    the mean darkness of its images, 0 to 1; ``style``, (N, 4), all four numbers. Weight, width and
    slant are stated in the file; a variable font states its default.

    A warning counts the fonts that are left out: those that lack a letter, cannot be read, state a number
    out of its range, or draw every letter exactly like another font.

    Args:
        folders: Folders with fonts at any depth, files that end in .ttf, .otf or .ttc;
            ``"system"``: the installed fonts.
        letters: The characters.
        size: Height and width of the images in pixels, 8 to 512.
        test_fraction: The part of the families that is kept for testing, between 0 and 1.
        seed: Seed of the split.

    Raises:
        ValueError: If a parameter is out of its range; on use, for fewer than two families.
        FileNotFoundError: On use, if there is no such folder, or no font in it.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"folders": "fonts", "letters": "Aa"}

    def __init__(
        self,
        folders: str | list[str] = "system",
        letters: str = LETTERS,
        size: int = 32,
        test_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        check_fraction(test_fraction, seed)
        twice = [letter for letter, count in Counter(letters).items() if count > 1]
        if not letters or twice or any(each.isspace() for each in letters):
            raise ValueError(
                f"letters must be different characters that leave ink, not {letters!r}"
                + (f", with {twice[0]!r} twice" if twice else "")
            )
        self.folders = [folders] if isinstance(folders, str) else [*folders]
        self.letters = letters
        self.size = whole("size", size, 8, 512)
        self.test_fraction = test_fraction
        self.seed = seed

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        check_split(split)
        fonts, images = _drawn(_files(self.folders), self.letters, self.size)
        families = sorted({font.family for font in fonts})
        if len(families) < 2:
            raise ValueError(
                f"{' '.join(self.folders)} has fonts of {len(families)} families with all letters, "
                "but a whole family is held out for testing: give a folder with more families"
            )
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(families), generator=generator).tolist()
        tested = order[: min(max(1, round(self.test_fraction * len(order))), len(order) - 1)]
        place = {family: number for number, family in enumerate(families)}
        family = torch.tensor([place[font.family] for font in fonts])
        held = torch.isin(family, torch.tensor(tested))
        rows = (held if split == "test" else ~held).nonzero().flatten()
        of_split = images[rows]
        n = len(self.letters)
        label = torch.arange(n).repeat(len(rows))
        ink = 1 - of_split.flatten(1).float().mean(1) / 255
        stated = torch.tensor([fonts[row].numbers for row in rows.tolist()])
        style = torch.cat([stated, ink[:, None]], 1)
        of_fonts = {"family": family[rows], "font": rows, "style": style}
        of_fonts |= dict(zip(NUMBERS, style.unbind(1), strict=True))
        columns: dict[str, Tensor | list[str]] = {"label": label}
        columns |= {name: each.repeat_interleave(n, 0) for name, each in of_fonts.items()}
        words = {"label": [*self.letters], "family": families}
        return InMemory(of_split.flatten(0, 1)[:, None], label, columns, words, group="family")

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        return {
            "label": "categorical",
            "family": "categorical",
            "font": "categorical",
            **dict.fromkeys((*NUMBERS, "style"), "continuous"),
        }


class Font(NamedTuple):
    """A font with all letters: its place, and the numbers that its file states."""

    path: str
    place: int
    """The font's place in the file."""
    family: str
    numbers: tuple[float, float, float]
    """Weight, width and slant."""


def _files(folders: Sequence[str]) -> tuple[str, ...]:
    """The paths of font files, sorted, each once.

    Raises:
        FileNotFoundError: If there is no such folder, or no font.
    """
    from matplotlib.font_manager import findSystemFonts  # late: it lists the system's fonts

    found: set[str] = set()
    for folder in folders:
        if folder == "system":
            found |= {*findSystemFonts()}
            continue
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise FileNotFoundError(f"there is no folder {str(path)!r} of fonts")
        found |= {*findSystemFonts([str(path)])}
    if not found:
        raise FileNotFoundError(f"no .ttf, .otf or .ttc in {', '.join(folders)}")
    return tuple(sorted({os.path.realpath(path) for path in found}))


@functools.lru_cache(maxsize=1)
def _drawn(paths: tuple[str, ...], letters: str, size: int) -> tuple[list[Font], Tensor]:
    """Fonts, and their letters (fonts, letters, size, size) uint8; drawn once for both splits."""
    fonts: list[Font] = []
    images: list[Tensor] = []
    left_out: Counter[str] = Counter()
    seen: set[bytes] = set()
    for path in paths:
        with _without_log():
            read = [*_read(path, letters)]
        for font in read:
            if isinstance(font, str):
                left_out[font] += 1
            elif (image := _draw(font, letters, size)) is None:
                left_out["lack a letter"] += 1
            elif (pixels := image.numpy().tobytes()) in seen:
                left_out["look like another font"] += 1
            else:
                seen.add(pixels)
                fonts.append(font)
                images.append(image)
    if left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        total = len(fonts) + left_out.total()
        warnings.warn(f"of {total} fonts {left_out.total()} are left out: {reasons}", stacklevel=3)
    made = torch.stack(images) if images else torch.empty(0, len(letters), size, size)
    return fonts, made


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
    """Hide the warnings of fontTools about tables that are too long."""
    level = (logger := logging.getLogger("fontTools")).level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _read(path: str, letters: str) -> Iterator[Font | str]:
    """The fonts of a file, or the reason why one is left out."""
    from fontTools.ttLib import TTCollection, TTFont, TTLibError

    try:
        if path.lower().endswith((".ttc", ".otc")):
            with TTCollection(path, lazy=True) as collection:
                count = len(collection.fonts)
        else:
            count = 1
        for index in range(count):
            with TTFont(path, fontNumber=index if count > 1 else -1, lazy=True) as font:
                family = font["name"].getBestFamilyName()
                codes, style, post = font.getBestCmap() or {}, font["OS/2"], font["post"]
                lacking = any(ord(letter) not in codes for letter in letters)
                numbers = (style.usWeightClass, style.usWidthClass, -post.italicAngle)
            if lacking:
                yield "lack a letter"
            elif not family:
                yield "have no name"
            elif any(not low <= n <= high for n, (low, high) in zip(numbers, RANGES, strict=True)):
                yield "state a weight, a width or an angle out of range"
            else:
                yield Font(path, index, family, tuple(map(float, numbers)))  # type: ignore[arg-type]  # three
    except (TTLibError, KeyError, OSError, AssertionError, ValueError, struct.error):
        yield "cannot be read"


def _ink_of(font: ImageFont.FreeTypeFont, letter: str) -> tuple[int, ...] | None:
    """The bounds of a letter's ink on the line; None without ink.

    `getbbox` includes the space beside the letter.
    """
    mask, (right, down) = font.getmask2(letter, "L", anchor="ls")
    box = mask.getbbox()
    return box and (box[0] + right, box[1] + down, box[2] + right, box[3] + down)


def _draw(font: Font, letters: str, size: int) -> Tensor | None:
    """Images (letters, size, size) uint8; None if a letter leaves no ink."""
    try:
        large = ImageFont.truetype(font.path, REFERENCE, font.place)
        boxes = [_ink_of(large, letter) for letter in letters]
        if not all(boxes):
            return None
        left, top, right, bottom = np.array(boxes).T
        inner = size * (1 - 2 * MARGIN)
        points = REFERENCE * inner / max(bottom.max() - top.min(), (right - left).max())
        fitting = ImageFont.truetype(font.path, points, font.place)
        scale = points / REFERENCE
        line = size / 2 - scale * (bottom.max() + top.min()) / 2
        drawn = []
        for letter, from_, to in zip(letters, left, right, strict=True):
            image = Image.new("L", (size, size), 255)
            place = (size / 2 - scale * (from_ + to) / 2, line)
            ImageDraw.Draw(image).text(place, letter, 0, fitting, anchor="ls")
            drawn.append(np.asarray(image))
    except (OSError, ValueError):  # FreeType raises both
        return None
    together = np.stack(drawn)
    return torch.from_numpy(together) if (together.min((1, 2)) < 255).all() else None

"""MNIST's digits on colored grounds."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.arguments import checked, whole, word
from ccl_plugins.datasets.annotated import InMemory
from ccl_plugins.datasets.splitting import SPLITS, between, check_split, hold_out
from ccl_plugins.protocols import ValueType

PALETTE = (
    (31, 119, 180),
    (255, 127, 14),
    (44, 160, 44),
    (214, 39, 40),
    (148, 103, 189),
    (140, 86, 75),
    (227, 119, 194),
    (127, 127, 127),
    (188, 189, 34),
    (23, 190, 207),
)
"""The ten colors of the released generator."""

STEMS = {"train": "train", "test": "t10k"}


@dataclass(eq=False, repr=False)
class ColorMNIST:
    """MNIST's digits on grounds of one random color each, independent of the digit.

    Digits are black; images have 28x28 pixels and three channels, and are in memory. Each image
    keeps its color.

    Columns: ``label`` and ``digit`` (equal; one to evaluate on, one to condition on); ``color``,
        (N, 3) float32 in [0, 1]; ``hue``, (N, 3) the color's direction, of length 1, which the
        cosine kernel compares; ``brightness``, (N,) the color's length; and for the mixture
        ``palette``, the number of the drawn color.

    Args:
        root: The folder with MNIST's four idx files, compressed (``.gz``) or not; the files of
            Fashion-MNIST and others with the same names work too.
        colors: ``"uniform"``: continuous, uniform in the RGB cube. ``"mixture"``: the released
            generator's, one of ten colors with normal noise of standard deviation 40 of 255 on each
            channel, truncated to whole numbers in 0 to 255.
        seed: Seed of the colors, and of the split if ``test_fraction`` is given, 0 or more.
        test_fraction: The part of each class that is kept for testing, between 0 and 1, of the
            images of all files, which are split anew. None: the split of the files.

    Raises:
        ValueError: If a parameter is out of its range; on use, for a damaged file, and if a class would
            have no image in a split.
        FileNotFoundError: On use, if a file is missing.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), appendix F.4, and its
        released code. Colors are a mixture in the code, but continuous in the paper.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"root": "mnist"}

    root: str | Path
    colors: Literal["uniform", "mixture"] = word("uniform", "mixture")
    seed: int = checked(whole, least=0, default=0)
    test_fraction: float | None = checked(between, default=None)

    def __call__(self, split: str) -> InMemory:
        """The ``"train"`` or ``"test"`` split."""
        check_split(split)
        if self.test_fraction is None:
            pixels, label = self._read(split)
        else:
            pixels, label = map(torch.cat, zip(*map(self._read, SPLITS), strict=True))
            rows = hold_out(label, self.test_fraction, self.seed)[split]
            pixels, label = pixels[rows], label[rows]
        # Each seed and split has its own random numbers.
        generator = torch.Generator().manual_seed(2 * self.seed + (split == "test"))
        columns = {"label": label, "digit": label}
        if self.colors == "uniform":
            color = 255 * torch.rand(len(label), 3, generator=generator)
        else:
            columns["palette"] = torch.randint(len(PALETTE), (len(label),), generator=generator)
            color = mixture(columns["palette"], generator)
        columns["color"] = color / 255
        columns["hue"] = normalize(columns["color"], dim=1)
        columns["brightness"] = columns["color"].norm(dim=1)
        return InMemory(on_ground(pixels, color), label, columns)

    def _read(self, split: str) -> tuple[Tensor, Tensor]:
        """The images and labels of the files of a split."""
        pixels = read_idx(find_idx(self.root, f"{STEMS[split]}-images", 3))
        label = read_idx(find_idx(self.root, f"{STEMS[split]}-labels", 1)).long()
        if len(pixels) != len(label):
            raise ValueError(
                f"{self.root}: {len(pixels)} images, but {len(label)} labels of {split}"
            )
        return pixels, label

    def schema(self) -> Mapping[str, ValueType]:
        """The columns of the metadata and what they hold."""
        columns: dict[str, ValueType] = {"label": "categorical", "digit": "categorical"}
        if self.colors == "mixture":
            columns["palette"] = "categorical"
        return {**columns, "color": "continuous", "hue": "continuous", "brightness": "continuous"}


def mixture(palette: Tensor, generator: torch.Generator) -> Tensor:
    """(N, 3) noisy colors, whole numbers in 0 to 255, for places (N,) in the palette."""
    noise = (40 * torch.randn(len(palette), 3, generator=generator)).trunc()
    return (torch.tensor(PALETTE)[palette] + noise).clamp(0, 255)


def on_ground(pixels: Tensor, color: Tensor) -> Tensor:
    """Black strokes on colored grounds, truncated to whole numbers, (N, 3, height, width) uint8.

    Args:
        pixels: (N, height, width) uint8, 255 for the stroke.
        color: (N, 3) in 0 to 255.
    """
    images = torch.empty(len(pixels), 3, *pixels.shape[1:], dtype=torch.uint8)
    # In float64, since float32 may give 254.99999, truncated to 254, for 255.  In pieces, since 60,000
    # images in float64 are more than a gigabyte.
    for part in torch.arange(len(pixels)).split(4096):
        ground = (255 - pixels[part].double()) / 255
        images[part] = (ground[:, None] * color[part].double()[:, :, None, None]).to(torch.uint8)
    return images


def find_idx(folder: str | Path, stem: str, ndim: int) -> Path:
    """The file of a part of MNIST, compressed or not, such as ``train-images-idx3-ubyte.gz``.

    Raises:
        FileNotFoundError: If there is no such file; the message lists the names that were tried.
    """
    names = [
        f"{stem}{mark}idx{ndim}-ubyte{packed}" for mark in ("-", ".") for packed in ("", ".gz")
    ]
    folder = Path(folder).expanduser()
    for name in names:
        if (path := folder / name).is_file():
            return path
    raise FileNotFoundError(f"there is none of {', '.join(names)} in {str(folder)!r}")


def read_idx(path: str | Path) -> Tensor:
    """The uint8 array in an idx file, which is decompressed if it ends in ``.gz``.

    Raises:
        ValueError: If the file is not idx of bytes, is empty, truncated or too long.
    """
    path = Path(path).expanduser()
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error
    # Two zeros, the type of the values (8: bytes), the number of dimensions; then each in 4 bytes, the
    # highest first.
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(
            f"{path} is not an idx file of bytes: it begins with {content[:4].hex(' ')}"
        )
    start = 4 + 4 * content[3]
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) != start + math.prod(shape):
        raise ValueError(
            f"{path} has {len(content)} bytes, and its shape {tuple(shape)} needs"
            f" {start + math.prod(shape)}: it is damaged"
        )
    if not math.prod(shape):
        raise ValueError(f"{path} is empty: its shape is {tuple(shape)}")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=start).reshape(shape)

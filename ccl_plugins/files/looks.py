"""The look of decoded images: types, sizes, empty contents, and duplicates."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

DIGEST = 16
"""The number of bytes in the digest of an image's pixels."""

WHITE = 0.5
"""An image is saturated if at least this share of its numbers is the largest of 8 bits."""


class Look(NamedTuple):
    """The look of an image.

    Args:
        kind: The content of its file, such as ``"uint16, 5 channels in 5 pages"``.
        shape: (channels, height, width) after reading.
        flaw: ``"black"``, ``"of one color"``, ``"saturated"`` or empty.
        digest: Equal for images of equal type, shape and pixels, of PIL or as tensors.
    """

    kind: str
    shape: tuple[int, int, int]
    flaw: str
    digest: bytes


def look(image: Any, kind: str = "") -> Look | None:
    """The look of a PIL image or a tensor, (channels, height, width); None for other objects.

    Args:
        image: A result of `read_image`.
        kind: The content of its file; empty: derived from the image.
    """
    if isinstance(image, Image.Image):
        values = np.asarray(image)
        pixels = values.reshape(*values.shape[:2], -1)
    elif isinstance(image, Tensor) and image.ndim == 3:
        values = (image.float() if image.dtype == torch.bfloat16 else image).detach().cpu().numpy()
        pixels = values.transpose(1, 2, 0)
    else:
        return None
    height, width, channels = pixels.shape
    # In memory order: to bring channels first takes longer than to decode the image.
    head = f"{values.dtype} {values.shape} ".encode()
    digest = hashlib.sha256(head)
    digest.update(np.ascontiguousarray(values).data)
    kind = kind or f"{values.dtype}, {channels} channel{'s' * (channels > 1)}"
    return Look(kind, (channels, height, width), _flaw(pixels), digest.digest()[:DIGEST])


def _flaw(pixels: np.ndarray[Any, Any]) -> str:
    """The flaw of an image, (height, width, channels), that has little content; empty: no flaw."""
    if not pixels.size:
        return "without a pixel"
    first = pixels[0, 0]
    some = pixels[:: -(-len(pixels) // 8), :: -(-pixels.shape[1] // 8)]  # tell most images apart
    if (some == first).all() and (pixels == first).all():
        return "of one color" if first.any() else "black"
    if pixels.dtype != np.uint8:
        return ""
    return "saturated" if np.count_nonzero(pixels == 255) >= WHITE * pixels.size else ""


class Looks:
    """The looks of the images of a split, with a digest of each.

    Attributes:
        rows: The sample of each image, by the place at which it was added.
        unreadable: The samples that cannot be read, with the reason.
        kinds: The number of images of each kind.
        shapes: The number of images of each shape, and the place of the first.
        flaws: The places of images with a flaw, by flaw.
    """

    def __init__(self) -> None:
        self.rows: Sequence[int] = array("q")
        self.unreadable: dict[int, str] = {}
        self.kinds: Counter[str] = Counter()
        self.shapes: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.flaws: dict[str, array[int]] = {}
        self._digests = bytearray()

    def __len__(self) -> int:
        """The number of images that were read."""
        return len(self.rows)

    def add(self, row: int, seen: Look) -> None:
        """Add the look of a sample's image."""
        place = len(self.rows)
        assert isinstance(self.rows, array)
        self.rows.append(row)
        self.kinds[seen.kind] += 1
        count, first = self.shapes.get(seen.shape, (0, place))
        self.shapes[seen.shape] = (count + 1, first)
        if seen.flaw:
            self.flaws.setdefault(seen.flaw, array("q")).append(place)
        self._digests += seen.digest

    def readable(self) -> Looks:
        """The looks for a split with only the readable samples."""
        kept = Looks()
        kept.__dict__.update(self.__dict__, rows=range(len(self)), unreadable={})
        return kept

    def repeated(self, earlier: Looks | None = None) -> Iterator[tuple[int, int]]:
        """Pairs of a sample and an earlier one, here or in ``earlier``, with the same pixels."""
        among = self if earlier is None else earlier
        first: dict[bytes, int] = {}
        for row, digest in among._with_digests():
            if (known := first.setdefault(digest, row)) != row and earlier is None:
                yield row, known
        if earlier is not None:
            for row, digest in self._with_digests():
                if digest in first:
                    yield row, first[digest]

    def extremes(self) -> list[int]:
        """Samples with each number of channels, and the smallest and the largest; the first one first."""
        if not self.shapes:
            return []
        by_area = sorted(self.shapes, key=lambda shape: shape[1] * shape[2])
        of_channels = {shape[0]: shape for shape in reversed([*self.shapes])}
        places = {self.shapes[s][1] for s in (*of_channels.values(), by_area[0], by_area[-1])}
        return [self.rows[place] for place in sorted({0, *places})]

    def _with_digests(self) -> Iterator[tuple[int, bytes]]:
        for place, row in enumerate(self.rows):
            yield row, bytes(self._digests[DIGEST * place : DIGEST * (place + 1)])

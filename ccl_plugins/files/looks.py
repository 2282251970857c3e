"""What images look like once they are decoded: kinds, sizes, contents that tell nothing, and equal ones."""

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
"""The bytes that stand for an image's pixels."""

WHITE = 0.5
"""The share of numbers at the top of 8 bits from which on an image is called saturated."""


class Look(NamedTuple):
    """What is seen of an image.

    Args:
        kind: What its file holds, such as ``"uint16, 5 channels in 5 pages"``.
        shape: (channels, height, width) of what was read.
        flaw: ``"black"``, ``"of one color"``, ``"saturated"`` or empty.
        digest: Equal for images of equal type, shape and pixels, of PIL or as tensors.
    """

    kind: str
    shape: tuple[int, int, int]
    flaw: str
    digest: bytes


def look(image: Any, kind: str = "") -> Look | None:
    """What is seen of an image of PIL or a tensor, (channels, height, width); None for other things.

    Args:
        image: As `read_image` returns it.
        kind: What its file holds; empty: what the image holds.
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
    # As the pixels lie: to bring channels first takes longer than to decode the image.
    head = f"{values.dtype} {values.shape} ".encode()
    digest = hashlib.sha256(head)
    digest.update(np.ascontiguousarray(values).data)
    kind = kind or f"{values.dtype}, {channels} channel{'s' * (channels > 1)}"
    return Look(kind, (channels, height, width), _flaw(pixels), digest.digest()[:DIGEST])


def _flaw(pixels: np.ndarray[Any, Any]) -> str:
    """Why an image, (height, width, channels), tells nothing or little; empty: it does."""
    if not pixels.size:
        return "without a pixel"
    first = pixels[0, 0]
    some = pixels[:: -(-len(pixels) // 8), :: -(-pixels.shape[1] // 8)]  # tell most images
    if (some == first).all() and (pixels == first).all():
        return "of one color" if first.any() else "black"
    if pixels.dtype != np.uint8:
        return ""
    return "saturated" if np.count_nonzero(pixels == 255) >= WHITE * pixels.size else ""


class Looks:
    """What is seen of the images of a split, of which a digest each is kept.

    Attributes:
        rows: The sample of each image, by the place at which it was added.
        unreadable: The samples that cannot be read, and why.
        kinds: How many images are of which kind.
        shapes: How many are of which shape, and the place of the first.
        flaws: The places of those with a flaw, by flaw.
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
        """Add what is seen of the image of a sample."""
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
        """The same of a split that has the readable samples alone."""
        kept = Looks()
        kept.__dict__.update(self.__dict__, rows=range(len(self)), unreadable={})
        return kept

    def repeated(self, earlier: Looks | None = None) -> Iterator[tuple[int, int]]:
        """Samples with the pixels of one before, and that one; or of the first one among ``earlier``."""
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

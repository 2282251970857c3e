"""Files with a wrong bit, as a disk or a memory may leave them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path


def bits(path: Path, number: int) -> list[int]:
    """Positions of bits all over a file."""
    return random.Random(0).sample(range(path.stat().st_size * 8), number)


def each_wrong_bit(path: Path, positions: Iterable[int]) -> Iterator[int]:
    """Make one bit of a file wrong, then another; at the end the file is whole."""
    whole = path.read_bytes()
    for bit in positions:
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        yield bit
    path.write_bytes(whole)

"""The contract of samplers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor


class Sampler(Protocol):
    """The order of samples: a pure function of its settings, the seed and the epoch.

    The pipeline supplies ``size``, ``batch_size``, ``seed`` and ``condition`` (a row per sample) by keyword
    to a constructor that takes them.  A parameter ``on`` names the condition; the static method
    ``value_types(parameters)``, if it exists, gives the value types that are accepted.
    """

    def __len__(self) -> int:
        """Batches per epoch, whatever values a condition has."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """Global batches of sample indices, (B,) or, for partners, (B, 2), from batch ``start`` on."""

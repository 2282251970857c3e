"""The contract of kernels."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Kernel(Protocol):
    """A similarity on the conditioning variable.

    It may also satisfy `SupportsFeatures`, `SupportsRank`, `SupportsRadial` and `SupportsOneHot`, which
    make CCL-K's operator cheaper and change no value.  With `SupportsConditions` it reads several
    conditions: it takes mappings of their names to values in place of values.
    """

    @property
    def positive_definite(self) -> bool:
        """Whether no eigenvalue of k(z, z) is below 0."""

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, c), (m, c) -> (n, m); (n,), (m,) for class ids and scalars."""

"""The contract of kernels."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Kernel(Protocol):
    """A similarity on the conditioning variable.

    It may also declare traits; see `trait`.  Those that make CCL-K's operator cheaper change no value.
    """

    @property
    def positive_definite(self) -> bool:
        """Whether no eigenvalue of k(z, z) is below 0."""

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, c), (m, c) -> (n, m); (n,), (m,) for class ids and scalars."""

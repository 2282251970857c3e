"""A kernel as a function of condition values, and what it may offer beside its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

KernelFunction = Callable[[Tensor, Tensor], Tensor]
"""From condition values (n, c) and (m, c) to their similarities (n, m)."""


@runtime_checkable
class SupportsFeatures(Protocol):
    """A kernel whose values are inner products of finitely many features."""

    def features(self, a: Tensor) -> Tensor:
        """Feature vectors (n, r) of condition values; their inner products are the kernel's values."""
        ...


@runtime_checkable
class SupportsRank(Protocol):
    """A kernel that knows its number of features before it computes them."""

    def rank(self, a: Tensor) -> int:
        """The number r of features of condition values like ``a``."""
        ...


@runtime_checkable
class SupportsRadial(Protocol):
    """A kernel that depends on the distance of two condition values alone."""

    def radial(self, square: Tensor) -> Tensor:
        """The kernel's values at squared distances, in their shape."""
        ...


@runtime_checkable
class SupportsOneHot(Protocol):
    """A kernel that reads class ids as one-hot vectors: one value for equal ids, one for different ones."""

    @property
    def one_hot(self) -> bool:
        """Whether class ids count as one-hot vectors."""
        ...

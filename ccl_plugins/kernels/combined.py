"""The base class of sums and products of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.numerics.kernel_functions import (
    SupportsFeatures,
    SupportsRadial,
    is_positive_definite,
    rank_of,
    reads_one_hot,
    similarities,
)
from ccl_plugins.protocols import Kernel


class Combined(OneHotKernel, ABC):
    """A kernel made of kernels.

    It is positive definite, and reads class ids as one-hot vectors, if all of its kernels do; it has
    ``features`` if all of them have, and ``radial`` likewise.

    Args:
        kernels: One or more.

    Raises:
        TypeError: For a kernel that does not declare ``positive_definite``.
        ValueError: If no kernels are given.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        name = type(self).__name__
        if not kernels:
            raise ValueError(f"{name} needs one or more kernels, not {kernels!r}")
        self.kernels = list(kernels)
        self.positive_definite = all([is_positive_definite(kernel, name) for kernel in kernels])
        self.one_hot = all(reads_one_hot(kernel) for kernel in kernels)
        if all(isinstance(kernel, SupportsFeatures) for kernel in kernels):
            self.features, self.rank = self._features, self._rank
        if all(isinstance(kernel, SupportsRadial) for kernel in kernels):
            self.radial = self._radial

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) combined values."""
        return self._combined([similarities(kernel, a, b) for kernel in self.kernels])

    @abstractmethod
    def _combined(self, values: list[Tensor]) -> Tensor:
        """The values of this kernel from those of all kernels, of any shape."""

    @abstractmethod
    def _features(self, a: Tensor) -> Tensor:
        """(n, r) features, from those of all kernels."""

    @abstractmethod
    def _rank(self, a: Tensor) -> int:
        """r, from the `_ranks` of all kernels."""

    def _radial(self, square: Tensor) -> Tensor:
        kernels: list[Any] = self.kernels  # all of them have ``radial``: see __init__
        return self._combined([kernel.radial(square) for kernel in kernels])

    def _ranks(self, a: Tensor) -> list[int]:
        """The number of features of each kernel that has them."""
        return [rank for kernel in self.kernels if (rank := rank_of(kernel, a)) is not None]

"""Kernels that are made of kernels: what they have in common."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ccl_plugins.protocols import Kernel


class Combined:
    """A kernel made of kernels; a subclass writes ``__call__``, ``_features``, ``_rank`` and ``_radial``.

    It is positive definite, and counts class ids as one-hot vectors, where all of its parts do; it has
    exact ``features`` where all have, and is ``radial`` where all are.

    Args:
        kernels: One or more.

    Raises:
        ValueError: For no kernels.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        if not kernels:
            raise ValueError(f"{type(self).__name__} needs one or more kernels, not {kernels!r}")
        self.kernels = list(kernels)
        self.positive_definite = all(kernel.positive_definite for kernel in kernels)
        self.one_hot = all(getattr(kernel, "one_hot", False) for kernel in kernels)
        if all(hasattr(kernel, "features") for kernel in kernels):
            self.features, self.rank = self._features, self._rank
        if all(hasattr(kernel, "radial") for kernel in kernels):
            self.radial = self._radial

    def _features(self, a: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _features")

    def _rank(self, a: Tensor) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define _rank")

    def _radial(self, square: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _radial")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernels!r})"


def features_of(kernel: Kernel, a: Tensor) -> Tensor:
    """(n, r) features of a kernel that has them."""
    features: Tensor = kernel.features(a)  # type: ignore[attr-defined]  # optional in the protocol
    return features


def radial_of(kernel: Kernel, square: Tensor) -> Tensor:
    """A kernel of distance alone, by squared distance."""
    values: Tensor = kernel.radial(square)  # type: ignore[attr-defined]  # optional in the protocol
    return values


def rank_of(kernel: Kernel, a: Tensor) -> int:
    """r, the width of the features of a kernel that has them; told without them where it can."""
    if hasattr(kernel, "rank"):
        return int(kernel.rank(a))
    return features_of(kernel, a).shape[1]

"""A kernel as a function of condition values, and its optional members that make computing cheaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

KernelFunction = Callable[[Tensor, Tensor], Tensor]
"""From condition values (n, c) and (m, c) to their similarities (n, m)."""

BLOCK = 128
"""Samples whose kernel matrix is computed at a time where only its diagonal is wanted."""


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


# The functions below are traced by torch.compile, which in older versions cannot trace ``isinstance``
# on a protocol, nor ``typing.cast``.  So they look for the members by ``getattr``.


def reads_one_hot(kernel: KernelFunction) -> bool:
    """Whether a kernel declares that it reads class ids as one-hot vectors."""
    return getattr(kernel, "one_hot", False)


def features_of(kernel: KernelFunction, a: Tensor) -> Tensor:
    """(n, r) features of float condition values; the kernel must have ``features``."""
    features: Tensor = kernel.features(a)  # type: ignore[attr-defined]  # it must have them
    return features


def rank_of(kernel: KernelFunction, a: Tensor) -> int | None:
    """The number r of features of float condition values; None for a kernel without features."""
    if getattr(kernel, "features", None) is None:
        return None
    rank: Any = getattr(kernel, "rank", None)
    return features_of(kernel, a[:1]).shape[1] if rank is None else int(rank(a))


def diagonal_of(kernel: KernelFunction, a: Tensor) -> Tensor:
    """``k(a, a)`` of each condition value, (n,), without forming the kernel matrix."""
    radial: Any = getattr(kernel, "radial", None)
    if radial is not None:
        dtype = a.dtype if a.is_floating_point() else None
        values: Tensor = radial(torch.zeros(len(a), dtype=dtype, device=a.device))
        return values
    if a.is_floating_point() and (rank_of(kernel, a) or BLOCK + 1) <= BLOCK:
        return features_of(kernel, a).square().sum(1)
    return torch.cat([kernel(some, some).diagonal() for some in a.split(BLOCK)])


def is_positive_definite(kernel: KernelFunction, user: str) -> bool:
    """What a kernel declares as ``positive_definite``; TypeError, naming ``user``, if it does not."""
    declared = getattr(kernel, "positive_definite", None)
    if declared is None:
        name = repr(kernel) if isinstance(kernel, str) else type(kernel).__name__
        raise TypeError(
            f"{user} needs a kernel with the member positive_definite (True or False), which {name}"
            " does not have"
        )
    return bool(declared)

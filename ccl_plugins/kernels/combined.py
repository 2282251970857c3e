"""The base class of sums and products of kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ccl_plugins.kernels.base import OneHotKernel
from ccl_plugins.numerics.kernel_functions import (
    conditions_of_kernel,
    features_of,
    is_positive_definite,
    rank_of,
    reads_one_hot,
    similarities,
)
from ccl_plugins.protocols import VALUE_TYPES, Kernel, ValueType, trait


class Combined(OneHotKernel, ABC):
    """A kernel made of kernels.

    It is positive definite, reads class ids as one-hot vectors, and has ``features`` or ``radial``,
    if this is true of all its kernels.

    Args:
        kernels: One or more kernels of one condition, or of several conditions if each kernel names
            its own.
        on: One or more kernels by the name of the condition that each reads. The combined kernel
            then takes mappings from these names to values.

    Raises:
        TypeError: For a kernel that does not declare ``positive_definite``.
        ValueError: If no kernels are given, or both forms.
    """

    def __init__(
        self, kernels: Sequence[Kernel] | None = None, on: Mapping[str, Kernel] | None = None
    ) -> None:
        name = type(self).__name__
        if (kernels is None) == (on is None):
            raise ValueError(
                f"{name} takes kernels=[...] of one condition, or on={{...}}, kernels by the name of the"
                f" condition that each reads: give exactly one, not {'both' if kernels else 'none'}"
            )
        if not (kernels if on is None else on):
            raise ValueError(
                f"{name} needs one or more kernels, not {kernels if on is None else on!r}"
            )
        self.kernels = None if kernels is None else list(kernels)
        self.on = None if on is None else dict(on)
        self.members: list[Any] = list(kernels or []) if on is None else list(on.values())
        self.conditions = self._read_together()
        self.positive_definite = all([is_positive_definite(each, name) for each in self.members])
        self.one_hot = not self.conditions and all(map(reads_one_hot, self.members))
        if all(trait(kernel, "features") for kernel in self.members):
            self.features, self.rank = self._features, self._rank
        if not self.conditions and all(trait(each, "radial") for each in self.members):
            self.radial = self._radial

    def _read_together(self) -> dict[str, tuple[ValueType, ...]]:
        """The conditions that are read by name, and the value types of each; empty for one condition."""
        name = type(self).__name__
        read = [conditions_of_kernel(kernel) for kernel in self.members]
        named = [", ".join(map(repr, each)) for each in read if each]
        if self.on is not None:
            if named:
                raise ValueError(
                    f"{name}(on=...) takes kernels of one condition each, but one kernel names "
                    f"{named[0]} itself: give kernels=[...], where each kernel names its conditions"
                )
            return dict.fromkeys(self.on, VALUE_TYPES)
        if named and len(named) < len(read):
            rest = next(k for k, each in zip(self.members, read, strict=True) if not each)
            raise ValueError(
                f"{name} has a kernel that names the conditions {named[0]}, and {rest!r}, which "
                "names none: give every kernel the names of its conditions, on={...}"
            )
        accepted: dict[str, tuple[ValueType, ...]] = {}
        for conditions in read:
            for key, types in conditions.items():
                accepted[key] = tuple(t for t in types if t in accepted.get(key, VALUE_TYPES))
        return accepted

    def __repr__(self) -> str:
        given = {"kernels": self.kernels, "on": self.on, "weights": getattr(self, "weights", None)}
        settings = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return f"{type(self).__name__}({', '.join(settings)})"

    def __call__(self, a: Any, b: Any) -> Tensor:
        """(n, m) combined similarities of values, or of mappings from names to values."""
        parts = zip(self.members, self._parts(a), self._parts(b), strict=True)
        return self._combined([similarities(kernel, x, y) for kernel, x, y in parts])

    def _parts(self, a: Any) -> list[Any]:
        """The part of condition values that each kernel reads."""
        if self.conditions and (isinstance(a, Tensor) or any(n not in a for n in self.conditions)):
            given = f"{tuple(a.shape)}" if isinstance(a, Tensor) else sorted(a)
            raise TypeError(
                f"{type(self).__name__} reads the conditions {', '.join(map(repr, self.conditions))}: give"
                f" their values by name, not {given}"
            )
        return [a] * len(self.members) if self.on is None else [a[name] for name in self.on]

    @abstractmethod
    def _combined(self, values: list[Tensor]) -> Tensor:
        """This kernel's similarities from those of all kernels, of any shape."""

    @abstractmethod
    def _features(self, a: Any) -> Tensor:
        """(n, r) features, made of all kernels' features."""

    @abstractmethod
    def _rank(self, a: Any) -> int:
        """r, from the `_ranks` of all kernels."""

    def _radial(self, square: Tensor) -> Tensor:
        # All kernels have ``radial``: see __init__.
        return self._combined([kernel.radial(square) for kernel in self.members])

    def _features_of_each(self, a: Any) -> list[Tensor]:
        return [features_of(each, z) for each, z in zip(self.members, self._parts(a), strict=True)]

    def _ranks(self, a: Any) -> list[int]:
        """The number of features of each kernel that has them."""
        ranks = [rank_of(each, z) for each, z in zip(self.members, self._parts(a), strict=True)]
        return [rank for rank in ranks if rank is not None]

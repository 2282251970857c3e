"""Several conditions as one: their values side by side in one tensor, and kernels of such tensors.

The conditional operator, landmarks, Gram statistics and queues take one tensor of condition values.
A kernel that reads several conditions takes a mapping of their names to values; `Joint` wraps it as
a kernel of one tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ccl_plugins.numerics.condition_values import as_vectors
from ccl_plugins.numerics.kernel_functions import (
    conditions_of_kernel,
    features_of,
    rank_of,
    similarities,
)

Layout: TypeAlias = tuple[tuple[str, int, bool], ...]
"""For each condition its name, its number of columns, and whether they are the digits of a class id."""

DIGIT = 22
"""Bits of a digit: float32 holds whole numbers of 24 bits, so three digits hold any class id exactly."""


class Joint:
    """A kernel of several conditions, as a kernel of their packed values.

    For conditions of numbers it has the kernel's ``features``; if all conditions are class ids, it
    has ``classes``.

    Args:
        kernel: A kernel with ``conditions``, which takes mappings of their names to values.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.conditions: Mapping[str, Sequence[Any]] = conditions_of_kernel(kernel)
        self.names = tuple(self.conditions)
        self.positive_definite = getattr(kernel, "positive_definite", False)
        self.layout: Layout = ()
        if getattr(kernel, "features", None) is not None:
            self.features, self.rank = self._features, self._rank

    def __repr__(self) -> str:
        return repr(self.kernel)

    def accepting(self, value_types: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
        """The kernel's conditions, with the given value types that it accepts for each.

        Raises:
            ValueError: If it accepts none of the value types for a condition.
        """
        both = {}
        for name, accepted in self.conditions.items():
            both[name] = tuple(each for each in value_types if each in accepted)
            if not both[name]:
                raise ValueError(
                    f"the kernel {type(self.kernel).__name__} reads a {' or '.join(accepted)} "
                    f"condition {name!r}, but its objective takes {' or '.join(value_types)} ones"
                )
        return both

    def pack(self, conditions: Mapping[str, Tensor]) -> Tensor:
        """The values of its conditions side by side, (m, c), or (u, m, c) if one differs per view.

        The kernel takes such tensors, and rows of them, until this method is called again.

        Args:
            conditions: By name (m,), (m, c) or (u, m, c); others are ignored.
        """
        packed, self.layout = pack({name: conditions[name] for name in self.names})
        return packed

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, m) similarities of packed values (n, c) and (m, c), or of values by name."""
        if not isinstance(a, Tensor):
            return similarities(self.kernel, a, b)
        x = unpack(a, self.layout)
        y = x if b is a else unpack(b, self.layout)  # a kernel may see that both are the same
        return similarities(self.kernel, x, y)

    def classes(self, values: Tensor) -> Tensor | None:
        """(m,) class ids, equal if two samples have a similarity above 0; None without such classes.

        The similarity is then the same in all classes, and 0 between two of them.
        """
        ids = all(ids for _, _, ids in self.layout)
        if not (ids and getattr(self.kernel, "separates", False)):
            return None
        return joint_ids(list(unpack(values, self.layout).values()))

    def _features(self, a: Tensor) -> Tensor:
        return features_of(self.kernel, unpack(a, self.layout))

    def _rank(self, a: Tensor) -> int | None:
        """The number of features; None if some values are class ids, which have no features."""
        if any(ids for _, _, ids in self.layout):
            return None
        return rank_of(self.kernel, unpack(a, self.layout))


def of_one_tensor(kernel: Any) -> Any:
    """A kernel of one tensor of values, which are packed if it names several conditions."""
    if isinstance(kernel, Joint) or not callable(kernel) or not conditions_of_kernel(kernel):
        return kernel
    return Joint(kernel)


def pack(conditions: Mapping[str, Tensor]) -> tuple[Tensor, Layout]:
    """Values of several conditions side by side, in at least float32, and their layout.

    A class id becomes three digits, which hold it exactly, and NaN if it is -1, which means missing.

    Args:
        conditions: By name (m,), (m, c) or, where it differs per view, (u, m, c).
    """
    parts, layout, dtype, views = [], [], torch.float32, set()
    for name, values in conditions.items():
        z = as_vectors(values)
        ids = not z.is_floating_point()
        if ids:
            z = _digits(z.long())
        else:
            dtype = torch.promote_types(dtype, z.dtype)
        if z.ndim == 3:
            views.add(len(z))
        parts.append(z)
        layout.append((name, z.shape[-1], ids))
    if len(views) > 1:
        raise ValueError(
            f"conditions that are read together must have one number of views, not {sorted(views)}"
        )
    for count in views:
        parts = [z if z.ndim == 3 else z.expand(count, *z.shape) for z in parts]
    return torch.cat([z.to(dtype) for z in parts], -1), tuple(layout)


def unpack(packed: Tensor, layout: Layout) -> dict[str, Tensor]:
    """The values (m, c), or class ids (m,), of each condition, from (m, ·)."""
    parts = zip(layout, packed.split([width for _, width, _ in layout], 1), strict=True)
    return {name: _ids(part) if ids else part for (name, _, ids), part in parts}


def joint_ids(columns: Sequence[Tensor]) -> Tensor:
    """(m,) class ids that are equal where all of the given class ids, (m,) each, are."""
    return reduce(lambda x, y: _places(x) * len(y) + _places(y), columns)


def _places(ids: Tensor) -> Tensor:
    """Each class id as a number from 0 to m - 1, without waiting for the device."""
    return torch.searchsorted(ids.sort().values, ids)


def _digits(ids: Tensor) -> Tensor:
    mask = (1 << DIGIT) - 1
    digits = torch.stack([ids >> 2 * DIGIT, (ids >> DIGIT) & mask, ids & mask], 1)
    return digits.to(torch.float32).masked_fill((ids == -1)[:, None], torch.nan)


def _ids(digits: Tensor) -> Tensor:
    high, middle, low = digits.long().unbind(1)
    return (high << 2 * DIGIT) + (middle << DIGIT) + low

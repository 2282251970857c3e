"""A kernel as a function of condition values, and its optional members that make computing cheaper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

KernelFunction = Callable[[Tensor, Tensor], Tensor]
"""From condition values (n, c) and (m, c) to their similarities (n, m)."""

BLOCK = 128
"""The number of samples whose kernel matrix is computed at a time if only its diagonal is needed."""


# The functions below are traced by torch.compile, which in older versions cannot trace ``isinstance``
# on a protocol, nor ``typing.cast``.  So they look for the members by ``getattr``.


def similarities(kernel: KernelFunction, a: Any, b: Any) -> Tensor:
    """``kernel(a, b)``, checked for its shape (n, m) and for floats.

    Args:
        kernel: The kernel.
        a: (n, c) or (n,) values, or a mapping of names to these for a kernel of several conditions.
        b: (m, c) or (m,) values, or a mapping too.

    Raises:
        ValueError: For another shape or type, with the kernel's name.
    """
    return _shaped(kernel, "similarities", kernel(a, b), (count_of(a), count_of(b)))


def count_of(values: Tensor | Mapping[str, Tensor]) -> int:
    """The number of samples of condition values, or of several conditions' values by name."""
    return len(values) if isinstance(values, Tensor) else len(next(iter(values.values())))


def conditions_of_kernel(kernel: Any) -> Mapping[str, Sequence[Any]]:
    """The conditions that a kernel reads by name, and their value types; empty if it reads one."""
    return getattr(kernel, "conditions", None) or {}


def _shaped(
    kernel: KernelFunction, what: str, values: Tensor, shape: tuple[int | None, ...]
) -> Tensor:
    """The result of a kernel, after a check of its shape, in which None is any number."""
    got = tuple(getattr(values, "shape", ()))
    if len(got) != len(shape) or any(n not in (None, m) for n, m in zip(shape, got, strict=True)):
        given = f"{got}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        wanted = str(shape).replace("None", "r")
        raise ValueError(
            f"the kernel {type(kernel).__name__} must return {what} of shape {wanted}, not {given}"
        )
    if not values.is_floating_point():
        raise ValueError(
            f"the kernel {type(kernel).__name__} must return floats, not {values.dtype}: add .float()"
        )
    return values


def reads_one_hot(kernel: KernelFunction) -> bool:
    """Whether a kernel declares that it reads class ids as one-hot vectors."""
    return getattr(kernel, "one_hot", False)


def features_of(kernel: KernelFunction, a: Any) -> Tensor:
    """(n, r) features of float condition values; the kernel must have ``features``."""
    features = kernel.features(a)  # type: ignore[attr-defined]  # it must have them
    return _shaped(kernel, "features", features, (count_of(a), None))


def rank_of(kernel: KernelFunction, a: Any) -> int | None:
    """The number r of features of float condition values; None for a kernel without features."""
    if getattr(kernel, "features", None) is None:
        return None
    rank: Any = getattr(kernel, "rank", None)
    if rank is not None:
        return None if (width := rank(a)) is None else int(width)
    first = a[:1] if isinstance(a, Tensor) else {name: z[:1] for name, z in a.items()}
    return features_of(kernel, first).shape[1]


def diagonal_of(kernel: KernelFunction, a: Tensor) -> Tensor:
    """``k(a, a)`` of each condition value, (n,), without forming the kernel matrix."""
    radial: Any = getattr(kernel, "radial", None)
    if radial is not None:
        dtype = a.dtype if a.is_floating_point() else None
        values = radial(torch.zeros(len(a), dtype=dtype, device=a.device))
        return _shaped(kernel, "radial values", values, (len(a),))
    rank = rank_of(kernel, a) if a.is_floating_point() else None
    if rank is not None and rank <= BLOCK:
        return features_of(kernel, a).square().sum(1)
    return torch.cat([similarities(kernel, rows, rows).diagonal() for rows in a.split(BLOCK)])


def is_positive_definite(kernel: KernelFunction, user: str) -> bool:
    """A kernel's ``positive_definite``; if it declares none, a TypeError that names ``user``."""
    declared = getattr(kernel, "positive_definite", None)
    if isinstance(kernel, type | str):
        named = repr(kernel) if isinstance(kernel, str) else f"the class {kernel.__name__}"
        raise TypeError(f"{user} needs a kernel, such as RBF(scale=0.1), not {named}")
    if declared is None:
        raise TypeError(
            f"{user} needs a kernel with the member positive_definite, which "
            f"{type(kernel).__name__} does not have: declare positive_definite = True (for a "
            "function, as its attribute) if no eigenvalue of k(z, z) is below 0, otherwise False"
        )
    return bool(declared)

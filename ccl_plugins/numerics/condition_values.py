"""Condition values as vectors or class ids: their products, norms and distances."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.numerics.precision import at_least_float32


def as_vectors(z: Tensor) -> Tensor:
    """Condition values in the form that kernels take: float (b, c), or class ids (b,).

    Class ids stand for one-hot vectors, which are never formed.  A float (b,) becomes (b, 1); 0/1
    columns in bool or uint8 become floats.

    Raises:
        TypeError: For integers in two dimensions, which may be counts, flags or a hierarchy of ids.
    """
    if z.dtype.is_floating_point:
        return z[:, None] if z.ndim == 1 else z
    if z.ndim == 1:
        return z
    if z.dtype in (torch.bool, torch.uint8):
        return z.to(torch.get_default_dtype())
    raise TypeError(
        f"a condition of integers must be (b,), class ids, not {tuple(z.shape)}: give one column of a"
        " hierarchy, or .float() for attributes"
    )


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products (n, m) of condition values; 1 or 0 for equal or different class ids."""
    x, y = as_vectors(a), as_vectors(b)
    if x.dtype.is_floating_point:
        return x @ y.mT
    return equal(x, y).to(torch.get_default_dtype())


def equal(a: Tensor, b: Tensor) -> Tensor:
    """(n, m) True where condition values are equal; vectors must be equal in all entries."""
    x, y = as_vectors(a), as_vectors(b)
    if x.dtype.is_floating_point:
        # p=0 counts the entries that differ, and takes no half precision on the CPU.
        return torch.cdist(at_least_float32(x), at_least_float32(y), p=0) == 0
    return x[:, None] == y


def squared_norm(a: Tensor) -> Tensor:
    """Squared norms (n,) of condition values; 1 for class ids."""
    x = as_vectors(a)
    if x.dtype.is_floating_point:
        return (x * x).sum(1)
    return torch.ones(len(x), device=x.device)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared Euclidean distances (n, m) of condition values; 0 or 2 for class ids.

    Values of one number give exact distances. Others are computed as ``|a|² + |b|² - 2ab`` after
    centering, so the error is relative to the spread of the values and not to their distance from 0
    (for example colors in 0..255). Results within rounding error of 0 are exactly 0, and so is the
    diagonal where ``a is b``.
    """
    x, y = as_vectors(a), as_vectors(b)
    if not x.dtype.is_floating_point:
        return 2 * (1 - inner(x, y))
    if x.shape[1] == 1:
        return (x - y.mT).square()
    center = y.mean(0)
    x, y = x - center, y - center
    size = (x * x).sum(1)[:, None] + (y * y).sum(1)
    square = torch.addmm(size, x, y.mT, alpha=-2)
    rounding = 4 * torch.finfo(x.dtype).eps * x.shape[1] ** 0.5
    square = square.masked_fill(square <= rounding * size, 0)
    return square.fill_diagonal_(0) if a is b else square


def missing_samples(values: Tensor) -> Tensor:
    """(n,) True at samples without a value, of (n,), (n, c) or (u, n, c): NaN, -1 among class ids."""
    entries = values.isnan() if values.dtype.is_floating_point else values == -1
    if entries.ndim > 1:
        entries = entries.any(-1)
    return entries.any(0) if entries.ndim > 1 else entries


def fill_missing(values: Tensor, missing: Tensor) -> Tensor:
    """Replace the values of missing samples by those of the others, taken in turn; 0 if all are missing.

    Args:
        values: (n,), (n, c) or (u, n, c).
        missing: (n,) bool.
    """
    sample = 1 if values.ndim == 3 else 0
    place = torch.arange(len(missing), device=values.device)
    present = missing.byte().argsort(stable=True)  # the present samples first
    chosen = present[place % (~missing).sum().clamp_min(1)]
    filled = values.index_select(sample, torch.where(missing, chosen, place))
    return filled.masked_fill(missing.all(), 0)


def replace_invalid(values: Tensor, valid: Tensor, first: int) -> Tensor:
    """Replace invalid values by the first ``first`` values, taken in turn.

    So the contents of empty places do not enter sums, and a median over all values is near the
    median of the valid ones. The first ``first`` values must be finite.
    """
    place = torch.arange(len(values), device=values.device)
    return values[torch.where(valid, place, place % first)]

"""The mathematics that several components share, in forms that are safe in float32.

Everything works in the log domain.  A masked entry is ``EMPTY`` and not minus infinity, so that a row
in which nothing is left has a finite value and a gradient of zero instead of NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

EMPTY = -1e30
"""The logit of an entry that does not count."""


def masked(logits: Tensor, keep: Tensor | None) -> Tensor:
    """``logits`` where ``keep`` holds (None: everywhere), ``EMPTY`` elsewhere."""
    return logits if keep is None else logits.masked_fill(in_order_of(logits, ~keep), EMPTY)


def in_order_of(x: Tensor, y: Tensor) -> Tensor:
    """``y`` in the order in memory of ``x``, where they have one shape.

    Where ``x`` is a transposed product, combining it with rows costs twenty times as much.
    """
    if x.stride() == y.stride() or x.shape != y.shape:
        return y
    return torch.empty_like(x, dtype=y.dtype).copy_(y)


def log_weights(weights: Tensor) -> Tensor:
    """Logarithms of weights; ``EMPTY`` where a weight is not above 0."""
    tiny = torch.finfo(weights.dtype).tiny  # the logarithm of 0 takes a slow path
    return weights.clamp_min(tiny).log_().masked_fill_(weights <= 0, EMPTY)


def least_exponent(dtype: torch.dtype) -> float:
    """What exponents are clamped at: their share is far below rounding, and still a normal number."""
    return -60.0 if dtype == torch.float32 else -600.0


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, weights: Tensor | None, scale: float) -> Tensor:
        ctx.scale = scale
        weighed = logits if weights is None and scale == 1 else _weighed(logits, weights, scale)
        top = weighed.amax(-1, keepdim=True)
        gaps = weighed - top if weighed is logits else weighed.sub_(top)
        shares = gaps.clamp_min_(least_exponent(logits.dtype)).exp_()
        total = shares.sum(-1, keepdim=True)
        ctx.save_for_backward(shares, total / (top > EMPTY / 2))  # no gradient where nothing counts
        return (total.log() + top).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        shares, total = ctx.saved_tensors
        return shares * (grad[..., None] * ctx.scale / total), None, None


def _weighed(logits: Tensor, weights: Tensor | None, scale: float) -> Tensor:
    if weights is None:
        return logits * scale
    if weights.dtype == torch.bool:
        return (logits * scale).masked_fill_(in_order_of(logits, ~weights), EMPTY)
    return torch.add(in_order_of(logits, weights), logits, alpha=scale)


def logsumexp(logits: Tensor, weights: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """Log-sum-exp over the last dimension, of ``scale * logits + weights``: (..., m) -> (...).

    As ``Tensor.logsumexp`` in value and gradient, and many times as fast where entries are masked: an
    exponential that underflows takes the slow path of the vector library, and numbers too small to be
    normal slow the products of the backward pass.  So shares below ``e⁻⁶⁰`` of the largest (float64:
    ``e⁻⁶⁰⁰``), which are far below rounding, count as that.

    Args:
        logits: (..., m).
        weights: (..., m) logarithms of weights, without gradient; or bool, which entries count; None:
            all, equally.
        scale: Of the logits.
    """
    result: Tensor = _LogSumExp.apply(logits, weights, scale)  # type: ignore[no-untyped-call]  # torch's
    return result


def logsumexp_blocks(blocks: Sequence[Tensor]) -> Tensor:
    """Log-sum-exp over the last dimension of blocks (n, m_1), (n, m_2), ... as if side by side: (n,)."""
    sums = [logsumexp(block) for block in blocks]
    return sums[0] if len(sums) == 1 else torch.stack(sums).logsumexp(0)


def as_vectors(z: Tensor) -> Tensor:
    """Condition values as kernels take them: float (b, c), or class ids (b,).

    Class ids stand for one-hot vectors, which are never formed.  A float (b,) is (b, 1); 0/1 columns
    in bool or uint8 become floats.

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
    """Inner products (n, m) of condition values; of class ids, whether they are equal."""
    x, y = as_vectors(a), as_vectors(b)
    if x.dtype.is_floating_point:
        return x @ y.mT
    return equal(x, y).to(torch.get_default_dtype())


def equal(a: Tensor, b: Tensor) -> Tensor:
    """(n, m) whether condition values are equal, vectors in all entries."""
    x, y = as_vectors(a), as_vectors(b)
    if x.dtype.is_floating_point:
        return torch.cdist(x, y, p=0) == 0  # how many entries differ
    return x[:, None] == y


def squared_norm(a: Tensor) -> Tensor:
    """Squared norms (n,) of condition values; of class ids, 1."""
    x = as_vectors(a)
    if x.dtype.is_floating_point:
        return (x * x).sum(1)
    return torch.ones(len(x), device=x.device)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared Euclidean distances (n, m) of condition values; of class ids, 0 or 2.

    ``|a|² + |b|² - 2ab`` after centering, which keeps the error of far-off-center values (colors in
    0..255, say) at the level of their spread; exactly 0 where no more than rounding is left, as
    between equal values, and on the diagonal where ``a is b``.
    """
    x, y = as_vectors(a), as_vectors(b)
    if not x.dtype.is_floating_point:
        return 2 * (1 - inner(x, y))
    center = y.mean(0)
    x, y = x - center, y - center
    size = (x * x).sum(1)[:, None] + (y * y).sum(1)
    square = torch.addmm(size, x, y.mT, alpha=-2)
    rounding = 4 * torch.finfo(x.dtype).eps * x.shape[1] ** 0.5
    square = square.masked_fill(square <= rounding * size, 0)
    return square.fill_diagonal_(0) if a is b else square


def at_least_float32(x: Tensor) -> Tensor:
    """``x``, in float32 where it is of narrower floats."""
    return x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x


def fill_by_turns(values: Tensor, valid: Tensor, first: int) -> Tensor:
    """Values (k, ...) in which the first few, by turns, stand where others are not valid.

    So what is not there reaches no sum, and a median over all is one over those that are there.

    Args:
        values: (k, ...).
        valid: (k,) True where a value is there.
        first: How many of the first stand in; they are there.
    """
    place = torch.arange(len(values), device=values.device)
    return values[torch.where(valid, place, place % first)]


def gather(x: Tensor, dim: int = 0) -> Tensor:
    """``x`` of all processes side by side, in the order of ranks, with gradient."""
    from lightly.utils import dist

    return torch.cat(dist.gather(x), dim) if dist.world_size() > 1 else x

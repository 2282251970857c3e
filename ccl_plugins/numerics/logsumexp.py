"""Log-sum-exp of masked and weighted entries, safe in float32.

A masked entry is ``EMPTY`` instead of minus infinity, so that a row in which every entry is masked has
a finite value and a gradient of zero instead of NaN.
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
    """Copy ``y`` into the memory layout of ``x`` where the two have one shape and different layouts.

    Combining a transposed product with a row-major tensor takes twenty times as long.
    """
    if x.stride() == y.stride() or x.shape != y.shape:
        return y
    return torch.empty_like(x, dtype=y.dtype).copy_(y)


def log_weights(weights: Tensor) -> Tensor:
    """Logarithms of weights; ``EMPTY`` where a weight is not above 0."""
    tiny = torch.finfo(weights.dtype).tiny  # the logarithm of 0 takes a slow path
    return weights.clamp_min(tiny).log_().masked_fill_(weights <= 0, EMPTY)


def least_exponent(dtype: torch.dtype) -> float:
    """The lower bound of exponents: ``e`` to it is far below rounding and still a normal number."""
    return -60.0 if dtype == torch.float32 else -600.0


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, weights: Tensor | None, scale: float) -> Tensor:
        ctx.scale = scale
        weighted = logits if weights is None and scale == 1 else _weighted(logits, weights, scale)
        top = weighted.amax(-1, keepdim=True)
        gaps = weighted - top if weighted is logits else weighted.sub_(top)
        shares = gaps.clamp_min_(least_exponent(logits.dtype)).exp_()
        total = shares.sum(-1, keepdim=True)
        ctx.save_for_backward(shares, total / (top > EMPTY / 2))  # no gradient where nothing counts
        return (total.log() + top).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        shares, total = ctx.saved_tensors
        return shares * (grad[..., None] * ctx.scale / total), None, None


def _weighted(logits: Tensor, weights: Tensor | None, scale: float) -> Tensor:
    if weights is None:
        return logits * scale
    if weights.dtype == torch.bool:
        return (logits * scale).masked_fill_(in_order_of(logits, ~weights), EMPTY)
    return torch.add(in_order_of(logits, weights), logits, alpha=scale)


def logsumexp(logits: Tensor, weights: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """Log-sum-exp of ``scale * logits + weights`` over the last dimension: (..., m) -> (...).

    Equal to ``Tensor.logsumexp`` in value and gradient, and many times as fast where entries are
    masked: exponentials that underflow take the slow path of the vector library, and subnormal numbers
    slow the products of the backward pass.  So shares below ``e⁻⁶⁰`` of the largest (float64:
    ``e⁻⁶⁰⁰``), which is far below rounding, are raised to that.

    Args:
        logits: (..., m).
        weights: (..., m) logarithms of weights, without gradient; or bool, True at the entries that
            count; None: all entries count equally.
        scale: Factor of the logits.
    """
    result: Tensor = _LogSumExp.apply(logits, weights, scale)  # type: ignore[no-untyped-call]  # torch's
    return result


def logsumexp_blocks(blocks: Sequence[Tensor]) -> Tensor:
    """Log-sum-exp over the columns of several blocks (n, m_1), (n, m_2), ... together: (n,)."""
    sums = [logsumexp(block) for block in blocks]
    return sums[0] if len(sums) == 1 else torch.stack(sums).logsumexp(0)

"""Log-sum-exp of masked and weighted entries, safe in float32.

A masked entry is ``EMPTY`` instead of minus infinity, so that a row in which every entry is masked has
a finite value and a gradient of zero instead of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.second_derivatives import differentiable_once

EMPTY = -1e30
"""The logit of an entry that does not count."""


def masked(logits: Tensor, keep: Tensor | None) -> Tensor:
    """``logits`` where ``keep`` holds (None: everywhere), ``EMPTY`` elsewhere."""
    return logits if keep is None else logits.masked_fill(in_order_of(logits, ~keep), EMPTY)


def in_order_of(x: Tensor, y: Tensor) -> Tensor:
    """Copy ``y`` into the memory layout of ``x`` if the two have the same shape and different layouts.

    Combining a transposed product with a row-major tensor takes twenty times as long.
    """
    if x.stride() == y.stride() or x.shape != y.shape:
        return y
    return torch.empty_like(x, dtype=y.dtype).copy_(y)


def numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where a bool ``mask`` holds, 0 elsewhere."""
    return mask.view(torch.uint8).to(dtype)  # torch converts bytes five times as fast as bool


def log_weights(weights: Tensor) -> Tensor:
    """Logarithms of weights; ``EMPTY`` where a weight is not above 0."""
    tiny = torch.finfo(weights.dtype).tiny  # the logarithm of 0 takes a slow path
    return weights.clamp_min(tiny).log_().masked_fill_(weights <= 0, EMPTY)


def softplus(x: Tensor) -> Tensor:
    """``log(1 + eˣ)``, never below 0; also exact in float64, where torch returns ``x`` from 20 on."""
    return functional.softplus(x, threshold=50)


def least_exponent(dtype: torch.dtype) -> float:
    """The lower bound of exponents: ``e`` to this power is far below rounding and still a normal number."""
    return -60.0 if dtype == torch.float32 else -600.0


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        weights: Tensor | None,
        scale: float,
        leave_out: int | None,
    ) -> Tensor:
        ctx.scale = scale
        plain = weights is None and leave_out is None and scale == 1
        weighted = logits if plain else _weighted(logits, weights, scale)
        if leave_out is not None:
            weighted.diagonal(leave_out).fill_(EMPTY)
        top = weighted.amax(-1, keepdim=True)
        gaps = weighted - top if weighted is logits else weighted.sub_(top)
        shares = gaps.clamp_min_(least_exponent(logits.dtype)).exp_()
        total = shares.sum(-1, keepdim=True)
        # No gradient flows where nothing counts.
        ctx.save_for_backward(shares, total / (top > EMPTY / 2))
        return (total.log() + top).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        shares, total = ctx.saved_tensors
        return shares * (grad[..., None] * ctx.scale / total), None, None, None


def _weighted(logits: Tensor, weights: Tensor | None, scale: float) -> Tensor:
    if weights is None:
        return logits * scale
    if weights.dtype == torch.bool:
        return (logits * scale).masked_fill_(in_order_of(logits, ~weights), EMPTY)
    return torch.add(in_order_of(logits, weights), logits, alpha=scale)


def logsumexp(
    logits: Tensor,
    weights: Tensor | None = None,
    scale: float = 1.0,
    leave_out: int | None = None,
) -> Tensor:
    """Log-sum-exp of ``scale * logits + weights`` over the last dimension: (..., m) -> (...).

    Equal to ``Tensor.logsumexp`` in value and gradient, and many times as fast if entries are
    masked: exponentials that underflow take the slow path of the vector library, and subnormal numbers
    slow the products of the backward pass. So shares below ``e⁻⁶⁰`` of the largest (float64:
    ``e⁻⁶⁰⁰``) are raised to this bound, which is far below rounding.

    Args:
        logits: (..., m).
        weights: (..., m) logarithms of weights, without gradient; or bool, True at the entries that
            count; None: all entries count equally.
        scale: Factor of the logits.
        leave_out: A column c of logits (n, m): row i leaves out the entry in column c + i; None: no
            entry is left out.
    """
    return differentiable_once(_LogSumExp.apply(logits, weights, scale, leave_out))  # type: ignore[no-untyped-call]  # torch's


def logsumexp_blocks(blocks: Sequence[Tensor]) -> Tensor:
    """Log-sum-exp over the columns of several blocks (n, m_1), (n, m_2), ... together: (n,)."""
    return torch.stack([logsumexp(block) for block in blocks]).logsumexp(0)


class _TiltedMean(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shift: Tensor, scales: tuple[Number, ...], count: int, *blocks: Tensor
    ) -> Tensor:
        sims, keeps = blocks[:count], blocks[count:]
        upper, lower, of_upper, of_lower = scales
        least = least_exponent(sims[0].dtype)
        gaps = [masked(x, keep) for x, keep in zip(sims, keeps, strict=True)]
        top = torch.stack([gap.amax(-1) for gap in gaps]).amax(0)
        counts = top > EMPTY / 2
        top = top.where(counts, 0)[:, None]
        light, heavy = [], []
        for gap in gaps:
            gap.sub_(top)
            light.append((gap * lower).clamp_min_(least).exp_())
            if isinstance(lower, Tensor):  # it may be 0, and then 0 times EMPTY counts
                light[-1].masked_fill_(gap < EMPTY / 2, math.exp(least))
            heavy.append(gap.mul_(upper).clamp_min_(least).exp_())
        totals = [torch.stack([x.sum(-1) for x in parts]).sum(0) for parts in (heavy, light)]
        # No gradient flows where nothing counts.
        share, taken = (
            (scale / total * counts)[:, None]
            for scale, total in zip((of_upper, of_lower), totals, strict=True)
        )
        slopes = [x.mul_(share).sub_(y.mul_(taken)) for x, y in zip(heavy, light, strict=True)]
        ctx.save_for_backward(*slopes)
        ratio = totals[0].log_().sub_(totals[1].log_())
        return ratio.add_((top[:, 0] - shift) * (upper - lower))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes = ctx.saved_tensors
        return None, None, None, *(grad[:, None] * x for x in slopes), *([None] * len(slopes))


def log_tilted_mean(
    blocks: Sequence[tuple[Tensor, Tensor]],
    temperature: Number,
    beta: Number,
    shift: Tensor,
    weight_gradient: bool = True,
) -> Tensor:
    """``log E_q[e^((s-c)/τ)]`` with ``q ∝ e^(βs/τ)`` over the columns of blocks together: (n,).

    One pass over each block computes it, and it is exact if the mean is near 1: both sums are
    relative to the same largest entry. A row without an entry that counts has a finite, meaningless
    value.

    Args:
        blocks: (n, m) inner products s, and bool, True at those that count; of several blocks together.
        temperature: τ, without gradient.
        beta: β, above 0, or a 0-d tensor of 0 or more; without gradient.
        shift: (n,) c, without gradient.
        weight_gradient: Whether the gradient flows through q too.
    """
    dtype = blocks[0][0].dtype
    temperature, beta = (x.to(dtype) if isinstance(x, Tensor) else x for x in (temperature, beta))
    upper, lower = (1 + beta) / temperature, beta / temperature
    slopes = (upper, lower) if weight_gradient else (1 / temperature, 0.0)
    sims, keeps = [x for x, _ in blocks], [keep for _, keep in blocks]
    ratio = _TiltedMean.apply(shift, (upper, lower, *slopes), len(sims), *sims, *keeps)  # type: ignore[no-untyped-call]  # torch's
    return differentiable_once(ratio)

"""Log-sum-exp over a queue, block by block, without a tensor of size anchors x queue.

A queue carries no gradient. So the gradient of a log-sum-exp of its inner products with a query is
known with the value: the mean of the queue's keys under the softmax. Both are computed in one pass
over blocks that fit the processor's cache, with a running maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.numerics.logsumexp import EMPTY, least_exponent
from ccl_plugins.numerics.second_derivatives import differentiable_once

Weigh = Callable[[slice], Tensor]
"""Takes a slice of the queue and returns its weights (n or 1, ·): bool, True at keys that count, or
logarithms."""


def blocks(length: int, width: int, device: torch.device) -> Iterator[slice]:
    """Slices of ``length`` rows of ``width`` numbers that fit a processor's cache; longer ones on a GPU."""
    step = max(256, 2 ** (20 if device.type == "cpu" else 27) // max(width, 1))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def ends(rows: slice, length: int) -> tuple[int, int]:
    """First index and end of a slice of neighboring rows; torch 2.11 cannot compile `slice.indices`."""
    start, stop = rows.start or 0, length if rows.stop is None else rows.stop
    start, stop = (end + length if end < 0 else end for end in (start, stop))
    return max(start, 0), min(stop, length)


def queue_logsumexp(queries: Tensor, queue: Tensor, *weighings: Weigh) -> list[Tensor]:
    """``log Σ_j w_ij exp(<query_i, key_j>)`` over a queue, for each of several weighings w.

    Args:
        queries: (u, n, d), u views of n anchors, divided by the temperature.
        queue: (q, d), without gradient; (u, q, d) where it differs by view.
        weighings: Functions that give the weights of a block of the queue, the same for all views.

    Returns:
        One (u, n) per weighing; ``EMPTY`` or less, and without gradient, where no key counts.
    """
    with torch.no_grad():
        sums = _streamed(queries, queue, weighings)
    return [
        differentiable_once(_WithGradient.apply(queries, value, mean))  # type: ignore[no-untyped-call]  # torch's
        for value, mean in sums
    ]


class _WithGradient(torch.autograd.Function):
    """A value (u, n) whose gradient with respect to the queries (u, n, d) is known."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad[..., None] * gradient, None, None


def _streamed(
    queries: Tensor, queue: Tensor, weighings: tuple[Weigh, ...]
) -> list[tuple[Tensor, Tensor]]:
    """Log-sums (u, n) and mean keys (u, n, d)."""
    u, n, d = queries.shape
    flat, floor = queries.reshape(u * n, d), least_exponent(queries.dtype)
    tops = [queries.new_full((u, n, 1), EMPTY) for _ in weighings]
    totals = [queries.new_zeros(u, n, 1) for _ in weighings]
    means = [queries.new_zeros(u * n, d) for _ in weighings]
    for columns in blocks(queue.shape[-2], u * n, queue.device):
        keys = queue[..., columns, :]
        products = (flat @ keys.T).view(u, n, -1) if keys.ndim == 2 else queries @ keys.mT
        for k, weigh in enumerate(weighings):
            mine = products if k == len(weighings) - 1 else products.clone()
            if (weights := weigh(columns)).dtype == torch.bool:
                logits = mine.masked_fill_(~weights, EMPTY)
            else:
                logits = mine.add_(weights)
            top = torch.maximum(tops[k], logits.amax(-1, keepdim=True))
            shares = logits.sub_(top).clamp_min_(floor).exp_()
            shrink = (tops[k] - top).exp()
            tops[k] = top
            totals[k] = totals[k] * shrink + shares.sum(-1, keepdim=True)
            means[k].mul_(shrink.view(-1, 1))
            if keys.ndim == 2:
                means[k].addmm_(shares.view(u * n, -1), keys)
            else:
                means[k].view(u, n, d).baddbmm_(shares, keys)
    sums = []
    for top, total, mean in zip(tops, totals, means, strict=True):
        counts = (top > EMPTY / 2) / total
        sums.append(((total.log() + top).squeeze(-1), mean.view(u, n, d) * counts))
    return sums

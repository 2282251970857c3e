"""The mathematics of CACR: the cost of moving a query to its positives and away from its negatives.

Costs are squared distances of unit vectors, ``d² = 2 - 2⟨a, b⟩``, computed from inner products.  Two
conditional distributions weigh them: ``π⁺ = softmax(t⁺ d²)`` prefers far positives,
``π⁻ = softmax(-t⁻ d²)`` prefers near negatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import EMPTY, in_order_of, least_exponent, masked
from ccl_plugins.numerics.numbers import Number
from ccl_plugins.numerics.second_derivatives import differentiable_once
from ccl_plugins.pairs.pairs import Pairs


def squared_distances(products: Tensor) -> Tensor:
    """``|a - b|²`` of unit vectors, from inner products of any shape."""
    return 2 - 2 * products


def positive_weights(costs: Tensor, t_plus: Number | None) -> Tensor:
    """π⁺ (K, n) from squared distances of n queries to K positives; equal weights if t⁺ is None."""
    if t_plus is None:
        return torch.full_like(costs, 1 / len(costs))
    return (t_plus * costs).softmax(0)


def log_negative_weights(products: Tensor, keep: Tensor, t_minus: Number | None) -> Tensor:
    """``log π⁻`` (n, m) from the inner products of n queries and m negatives.

    Args:
        products: (n, m) inner products.
        keep: (n, m) True at the negatives that count.
        t_minus: t⁻, above 0; None: equal weights.
    """
    # softmax(-t⁻ (2 - 2s)) = softmax(2 t⁻ s)
    logits = torch.zeros_like(products) if t_minus is None else (2 * t_minus) * products
    return masked(logits, keep).log_softmax(1)


def repulsion(products: Tensor, keep: Tensor, t_minus: Number | None, attached: int) -> Tensor:
    """Minus the expected squared distance to the negatives under π⁻ (n,); 0 without negatives.

    Arguments as in `log_negative_weights`; in the first ``attached`` columns, weights carry gradient.
    """
    return differentiable_once(_Repulsion.apply(products, keep, t_minus, attached))  # type: ignore[no-untyped-call]  # torch's


class _Repulsion(torch.autograd.Function):
    """``-Σ_j π_j (2 - 2 s_j) = 2 Σ_j π_j s_j - 2``.

    Only π is kept: ``log π`` is ``2 t⁻ s`` up to a constant of each row.
    """

    @staticmethod
    def forward(
        ctx: Any, products: Tensor, keep: Tensor, t_minus: Number | None, attached: int
    ) -> Tensor:
        twice = 0.0 if t_minus is None else 2 * t_minus  # softmax(-t⁻ (2 - 2s)) = softmax(2 t⁻ s)
        logits = (products * twice).masked_fill_(in_order_of(products, ~keep), EMPTY)
        logits.sub_(logits.amax(1, keepdim=True)).clamp_min_(least_exponent(logits.dtype))
        weights = logits.exp_()
        weights.div_(weights.sum(1, keepdim=True))
        mean, some = (weights * products).sum(1), keep.any(1)
        ctx.attached = 0 if t_minus is None else attached
        ctx.save_for_backward(weights, some)
        return torch.where(some, 2 * mean - 2, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, some = ctx.saved_tensors
        attached, others = ctx.attached, (None, None, None)
        grad = 2 * (grad * some)[:, None]
        if not attached:
            return weights * grad, *others
        logs = weights.log()
        gaps = logs - (weights * logs).sum(1, keepdim=True)  # 2 t⁻ (s - Σ_j π_j s_j)
        slopes = gaps[:, :attached] + 1
        if attached == weights.shape[1]:
            return slopes * weights * grad, *others
        return torch.cat([slopes * weights[:, :attached], weights[:, attached:]], 1) * grad, *others


def rbf_repulsion(products: Tensor, log_weights: Tensor, keep: Tensor, precision: Number) -> Tensor:
    """``ln( 1/n Σ_i Σ_j π⁻_ij exp(-t d²_ij) )``, a scalar; t is ``precision``; eq. (14), second line."""
    some = keep.any(1)
    per_query = (log_weights - precision * squared_distances(products)).logsumexp(1)
    mean = masked(per_query, some).logsumexp(0) - some.sum(dtype=products.dtype).clamp_min(1).log()
    # Of keys without gradient, the weights are constant.
    return differentiable_once(torch.where(some.any(), mean, torch.zeros_like(mean)))


def query_products(pairs: Pairs, i: int) -> Tensor:
    """(n, m) inner products of the queries of view ``i`` with the queries of all processes.

    The queries are the keys, unless the keys come from a momentum encoder.
    """
    j = pairs.within(i)
    if pairs.shared and j is not None:
        return pairs.sim(i, j)
    queries = pairs.anchors[i]
    return queries @ (queries if pairs.processes == 1 else gather(queries)).T


def other_queries(pairs: Pairs) -> Tensor:
    """(n, m) True at the other samples' queries; with a queue, they count too."""
    return replace(pairs, batch_candidates=None).others(pairs.negative)


def with_queue(pairs: Pairs, i: int, products: Tensor, keep: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The negatives of anchor view ``i``: the given ones and the queue, or only the drawn ones.

    Blocks of inner products (n, ·), and masks that are True at those that count.
    """
    if pairs.draws is not None:
        return [(products.gather(1, pairs.draws), keep.gather(1, pairs.draws))]
    if pairs.queue is None:
        return [(products, keep)]
    queue = pairs.sim_queue(i)
    return [(products, keep), (queue, pairs.in_queue(pairs.negative).expand_as(queue))]

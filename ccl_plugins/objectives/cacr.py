"""CACR: attraction to far positives and repulsion from near negatives, weighted separately.

Costs are squared distances of unit vectors, ``d² = 2 - 2⟨a, b⟩``, computed from inner products: d⁺ to
positives, d⁻ to negatives.  Two conditional distributions weigh them: ``π⁺ = softmax(t⁺ d⁺)`` prefers far
positives, ``π⁻ = softmax(-t⁻ d⁻)`` prefers near negatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, below_one, checked, non_negative, positive, whole, word
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.numerics.logsumexp import EMPTY, in_order_of, least_exponent, masked
from ccl_plugins.numerics.numbers import Number, is_zero
from ccl_plugins.numerics.second_derivatives import differentiable_once
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.scalars import Scalar, ScalarAttribute
from ccl_plugins.pairs.pairs import Pairs

Negatives = Literal["same_view", "other_view", "later_view"]


@dataclass(eq=False, repr=False)
class CACR(ContrastiveObjective):
    r"""Attraction to far positives and repulsion from near negatives, weighted separately (CACR).

    ``E_π⁺[ d² ] - E_π⁻[ d² ]``.  Positives: the own sample's keys of all other views, weighted by
    ``π⁺ = softmax(t⁺ d²)``: the farthest weigh most.  Negatives: the other queries, and the queue,
    weighted by ``π⁻ = softmax(-t⁻ d²)``: the nearest weigh most.  With one other view π⁺ is 1 and the
    attraction is the alignment loss.

    Equation:
        \ell_i = a \sum_v \pi^+_{iv} \lVert x_i - y_i^v \rVert^2 - r \sum_{j \neq i} \pi^-_{ij} \lVert
            x_i - x_j \rVert^2
        \pi^+_{iv} = \operatorname{softmax}_v ( t^+ \lVert x_i - y_i^v \rVert^2 )
        \pi^-_{ij} = \operatorname{softmax}_{j \neq i} ( -t^- \lVert x_i - x_j \rVert^2 )

    Args:
        t_plus: t⁺ of the positives' weights, above 0.
        t_minus: t⁻ of the negatives' weights, above 0.
        positives: K, the required number of views in addition to the query's; None: any number.
        conditional_positives: Whether positives are weighted by π⁺; if False, equally.
        conditional_negatives: Whether negatives are weighted by π⁻; if False, equally. If both are
            False, the loss is UAUR (uniform attraction and uniform repulsion), eq. (11).
        attraction_weight: Factor of the attraction, 0 or more.
        repulsion_weight: Factor of the repulsion, 0 or more.
        cost: The cost of the repulsion: ``"euclidean"`` distances, or ``"rbf"``, the log of the mean
            kernel value.
        precision: t of the RBF cost ``exp(-t d²)``, above 0.
        negatives: The views of the negatives: ``"same_view"``, the query's own (the paper);
            ``"other_view"``, every other; ``"later_view"``, those after the query's (released code).
        symmetric: Whether each view is the query once; if False, only the first view is.
        weight_gradient: Whether π⁺ and π⁻ carry gradient. Distances to momentum keys and to the
            queue never pass gradient through the weights, as in Algorithm 3.
        intra_batch: With a queue, whether the batch's other queries are negatives too; if False,
            only until the queue is full.
        tau_plus: The share of false negatives, from 0 to below 1; their expected part is subtracted
            from the repulsion. The paper does not have this term; the released code has it with a
            wrong sign.

    Raises:
        TypeError: For a number of positives that is not whole.
        ValueError: For a value out of range, or ``tau_plus`` with the RBF cost.

    Defaults:
        t_plus: Paper: 1. Code: 1.
        t_minus: Paper: 2 on CIFAR-10 with one positive; 0.9 to 3. Code: 2 (README); 1.
        attraction_weight: Code: 1 (README); 3.
        repulsion_weight: Code: 1 (README); 3.
        precision: Paper: 2. Code: 2. Here: of the cost ``"rbf"``.
        tau_plus: Code: 0.

    Source:
        Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning
        (2023), eqs. (2)-(5), with ``symmetric=False``; (14), second line, for the RBF cost; Algorithm
        3 with a queue.
    """

    t_plus: Scalar = ScalarAttribute(positive, default=1.0)
    t_minus: Scalar = ScalarAttribute(positive, default=2.0)
    _: KW_ONLY
    positives: int | None = checked(whole, least=1, most=DEEPEST, default=None)
    conditional_positives: bool = True
    conditional_negatives: bool = True
    attraction_weight: Scalar = ScalarAttribute(non_negative, default=1.0)
    repulsion_weight: Scalar = ScalarAttribute(non_negative, default=1.0)
    cost: Literal["euclidean", "rbf"] = word("euclidean", "rbf")
    precision: Scalar = ScalarAttribute(positive, default=2.0)
    negatives: Negatives = word("same_view", "other_view", "later_view")
    symmetric: bool = True
    weight_gradient: bool = True
    intra_batch: bool = True
    tau_plus: Scalar = ScalarAttribute(below_one, default=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost == "rbf" and not is_zero(self.tau_plus):
            raise ValueError(f'tau_plus={self._tau_plus!r} is for cost="euclidean", not "rbf"')
        self.within_view = self.negatives == "same_view"
        # The log of a mean over all queries is not the mean over processes.
        self.distributed = "replicated" if self.cost == "rbf" else "mean"
        self.min_views = (self.positives or 1) + 1

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per sample: attraction and repulsion, each averaged over the queries' views."""
        t_plus = self.t_plus if self.conditional_positives else None
        attractions, equal_weights = [], []
        for i in self._queries(pairs):
            d_plus = self._positive_distances(pairs, i)
            constant = not (self.weight_gradient and pairs.shared)
            pi_plus = positive_weights(d_plus.detach() if constant else d_plus, t_plus)
            attractions.append((pi_plus * d_plus).sum(0))  # E_π⁺[ d⁺ ]
            equal_weights.append(d_plus.mean(0))
        attraction, mean_d_plus = (torch.stack(x).mean(0) for x in (attractions, equal_weights))
        # -E_π⁻[ d⁻ ], or the log of the mean kernel value
        repulsion = torch.stack([self._repulsion(*block) for block in self._negatives(pairs)]).mean(
            0
        )
        if not is_zero(self.tau_plus):
            repulsion = (repulsion + self.tau_plus * mean_d_plus) / (1 - self.tau_plus)
        values = self.attraction_weight * attraction + self.repulsion_weight * repulsion
        return values[None], torch.ones_like(values[None])

    def _queries(self, pairs: Pairs) -> range:
        return range(len(pairs.anchors) if self.symmetric else 1)

    def _positive_distances(self, pairs: Pairs, i: int) -> Tensor:
        """(K, n) d⁺ of the queries of view ``i`` and the own keys of the other views."""
        views = [j for a, j in pairs.cross() if a == i]
        if len(views) != (self.positives or max(len(views), 1)):
            raise ValueError(
                f"CACR needs {self.positives or 'one or more'} views beside the query's,"
                f" not {len(views)}"
            )
        keys = torch.stack([pairs.keys[j, pairs.rows] for j in views])
        return squared_distances((pairs.anchors[i] * keys).sum(-1))

    def _negatives(self, pairs: Pairs) -> Iterator[tuple[Tensor, Tensor, int]]:
        """Inner products (n, ·), a mask, and the number of first columns with gradient through π⁻."""
        own_view = self.negatives == "same_view"
        keep = pairs.others(pairs.negative)
        if own_view and self.intra_batch:
            keep = other_queries(pairs)
        constant = not self.weight_gradient or not (own_view or pairs.shared)
        for i in self._queries(pairs):
            if own_view:
                yield _side_by_side(pairs, i, query_products(pairs, i), keep, constant)
                continue
            for a, j in pairs.cross(symmetric=self.negatives == "other_view"):
                if a == i:
                    yield _side_by_side(pairs, i, pairs.sim(i, j), keep, constant)

    def _repulsion(self, products: Tensor, keep: Tensor, attached: int) -> Tensor:
        """(n,) minus the expected d⁻ under π⁻, or the RBF cost's scalar for all queries."""
        t_minus = self.t_minus if self.conditional_negatives else None
        if self.cost == "rbf":
            partly = torch.cat([products[:, :attached], products[:, attached:].detach()], 1)
            log_weights = log_negative_weights(partly, keep, t_minus)
            return rbf_repulsion(products, log_weights, keep, self.precision)
        return expected_repulsion(products, keep, t_minus, attached)


def _side_by_side(
    pairs: Pairs, i: int, products: Tensor, keep: Tensor, constant: bool
) -> tuple[Tensor, Tensor, int]:
    blocks = with_queue(pairs, i, products, keep)
    attached = 0 if constant else blocks[0][0].shape[1]
    products, keep = (torch.cat(x, 1) if len(x) > 1 else x[0] for x in zip(*blocks, strict=True))
    return products, keep, attached


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


def expected_repulsion(
    products: Tensor, keep: Tensor, t_minus: Number | None, attached: int
) -> Tensor:
    """``-E_π⁻[ d⁻ ]``, (n,); 0 without negatives.

    If all weights carry gradient, the function computes::

        d_minus = 2 - 2 * products
        pi_minus = masked(-t_minus * d_minus, keep).softmax(1)
        repulsion = -(pi_minus * d_minus).sum(1)

    The code below computes the same and keeps one matrix for the gradient in place of three. The
    arguments are those of `log_negative_weights`; weights carry gradient in the first ``attached``
    columns.
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
        mean, has_negatives = (weights * products).sum(1), keep.any(1)
        ctx.attached = 0 if t_minus is None else attached
        ctx.save_for_backward(weights, has_negatives)
        return torch.where(has_negatives, 2 * mean - 2, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, has_negatives = ctx.saved_tensors
        attached, others = ctx.attached, (None, None, None)
        grad = 2 * (grad * has_negatives)[:, None]
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
    counts = keep.any(1)
    per_query = (log_weights - precision * squared_distances(products)).logsumexp(1)
    mean = (
        masked(per_query, counts).logsumexp(0) - counts.sum(dtype=products.dtype).clamp_min(1).log()
    )
    # Of keys without gradient, the weights are constant.
    return differentiable_once(torch.where(counts.any(), mean, torch.zeros_like(mean)))


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

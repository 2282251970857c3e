"""CACR: attraction to far positives and repulsion from near negatives, weighted separately."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import DEEPEST, below_one, non_negative, positive, whole
from ccl_plugins.numerics.numbers import is_zero
from ccl_plugins.objectives import transport
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.objectives.parameters import checked, word
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
        positives: K, the required number of views beside the query's; None: any.
        conditional_positives: Whether positives are weighted by π⁺; otherwise equally.
        conditional_negatives: Whether negatives are weighted by π⁻; otherwise equally.  With neither it
            is UAUR (uniform attraction and uniform repulsion), eq. (11).
        attraction_weight: Factor of the attraction, 0 or more.
        repulsion_weight: Factor of the repulsion, 0 or more.
        cost: The cost of the repulsion: ``"euclidean"`` distances, or ``"rbf"``, the log of the mean
            kernel value.
        precision: t of the RBF cost ``exp(-t d²)``, above 0.
        negatives: The views of the negatives: ``"same_view"``, the query's own (the paper);
            ``"other_view"``, every other; ``"later_view"``, those after the query's (released code).
        symmetric: Whether each view is the query once; otherwise only the first.
        weight_gradient: Whether π⁺ and π⁻ carry gradient.  Through distances to momentum keys and to
            the queue they never do, as in Algorithm 3.
        intra_batch: With a queue, whether the batch's other queries are negatives too; otherwise only
            until the queue is filled.
        tau_plus: The share of false negatives, from 0 to below 1, whose part is subtracted from the
            repulsion.  Not in the paper; the released code has it with a wrong sign.

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
    positives: int | None = checked(partial(whole, least=1, most=DEEPEST), default=None)
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
        """Declare what follows from the parameters."""
        super().__post_init__()
        if self.cost == "rbf" and not is_zero(self.tau_plus):
            raise ValueError(f'tau_plus={self._tau_plus!r} is for cost="euclidean", not "rbf"')
        self.within_view = self.negatives == "same_view"
        # The log of a mean over all queries is not the mean over processes.
        self.distributed = "replicated" if self.cost == "rbf" else "mean"
        self.min_views = (self.positives or 1) + 1

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per sample: attraction and repulsion, each averaged over the queries' views."""
        attracted, costs = self._attraction(pairs)
        repelled = torch.stack([self._repulsion(*each) for each in self._negatives(pairs)]).mean(0)
        if not is_zero(self.tau_plus):
            repelled = (repelled + self.tau_plus * costs) / (1 - self.tau_plus)
        values = self.attraction_weight * attracted + self.repulsion_weight * repelled
        return values[None], torch.ones_like(values[None])

    def _attraction(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """(n,) expected costs of the positives under π⁺, and under equal weights."""
        t_plus = self.t_plus if self.conditional_positives else None
        expected, equal = [], []
        for i in self._queries(pairs):
            views = [j for a, j in pairs.cross() if a == i]
            if len(views) != (self.positives or max(len(views), 1)):
                raise ValueError(
                    f"CACR needs {self.positives or 'one or more'} views beside the query's,"
                    f" not {len(views)}"
                )
            keys = torch.stack([pairs.keys[j, pairs.rows] for j in views])
            costs = transport.squared_distances((pairs.anchors[i] * keys).sum(-1))
            constant = not (self.weight_gradient and pairs.shared)
            weights = transport.positive_weights(costs.detach() if constant else costs, t_plus)
            expected.append((weights * costs).sum(0))
            equal.append(costs.mean(0))
        return torch.stack(expected).mean(0), torch.stack(equal).mean(0)

    def _queries(self, pairs: Pairs) -> range:
        return range(len(pairs.anchors) if self.symmetric else 1)

    def _negatives(self, pairs: Pairs) -> Iterator[tuple[Tensor, Tensor, int]]:
        """Inner products (n, ·), a mask, and the number of first columns with gradient through π⁻."""
        own_view = self.negatives == "same_view"
        keep = pairs.others(pairs.negative)
        if own_view and self.intra_batch:
            keep = transport.other_queries(pairs)
        constant = not self.weight_gradient or not (own_view or pairs.shared)
        for i in self._queries(pairs):
            if own_view:
                yield _side_by_side(pairs, i, transport.query_products(pairs, i), keep, constant)
                continue
            for a, j in pairs.cross(symmetric=self.negatives == "other_view"):
                if a == i:
                    yield _side_by_side(pairs, i, pairs.sim(i, j), keep, constant)

    def _repulsion(self, products: Tensor, keep: Tensor, attached: int) -> Tensor:
        """(n,) minus the expected costs under π⁻, or the RBF cost's scalar for all queries."""
        t_minus = self.t_minus if self.conditional_negatives else None
        if self.cost == "rbf":
            partly = torch.cat([products[:, :attached], products[:, attached:].detach()], 1)
            log_weights = transport.log_negative_weights(partly, keep, t_minus)
            return transport.rbf_repulsion(products, log_weights, keep, self.precision)
        return transport.repulsion(products, keep, t_minus, attached)


def _side_by_side(
    pairs: Pairs, i: int, products: Tensor, keep: Tensor, constant: bool
) -> tuple[Tensor, Tensor, int]:
    blocks = transport.with_queue(pairs, i, products, keep)
    attached = 0 if constant else blocks[0][0].shape[1]
    products, keep = (torch.cat(x, 1) if len(x) > 1 else x[0] for x in zip(*blocks, strict=True))
    return products, keep, attached

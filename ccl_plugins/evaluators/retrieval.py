"""Retrieval of samples of the same class by their features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.arguments import checked, one_of, whole, wholes
from ccl_plugins.evaluators.columns import (
    SAMPLES,
    SPLITS,
    OfColumn,
    Split,
    differing_values,
    fixed_part,
    name_prefix,
    of_classes,
    score,
    with_classes,
)
from ccl_plugins.evaluators.intervals import mean, over_rows
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric, ValueType

Negatives = Literal["all", "same", "other"]
"""The samples of other classes that are ranked: all, those of the query's group, or of other groups."""


@dataclass(eq=False, repr=False)
class Retrieval(OfColumn):
    """Retrieval of samples of the same class by the cosine similarity of frozen features.

    Each sample is a query that ranks all others of its split.  Gives ``"retrieval/recall_at_1"``, the
    fraction of queries with a sample of their class among the first k, for each k, and
    ``"retrieval/map"``, the mean of the average precisions of the whole rankings.  For another column,
    ``"retrieval-<column>/..."``. Queries whose class has no other sample are left out; among
    equally similar samples, those of other classes come first.

    With ``across``, such as plates or batches of cells, a query must find samples of its class in
    other groups. Samples of its class in its own group are not ranked, and queries without a match
    in other groups are left out. It gives ``"retrieval_across_<across>/recall_at_1"``, ..., whose
    ``map`` is the mean over queries of copairs' average precision, for pairs of
    ``pos_sameby=[column]`` and ``pos_diffby=[across]``.

    Split: queries and candidates are from ``split``; nothing is fitted and nothing
    selected.

    Args:
        k: Ranks of the recall, 1 or more each, below the number of samples.
        samples: The most samples, 2 or more; of a larger split, the first of a fixed shuffle, the
            same for all runs. The time grows with the square of their number.
        split: ``"test"`` or ``"train"``.
        column: Categorical column of the metadata; samples without a class, or without a group, are left
            out, and a warning counts them.
        across: Categorical column of groups; None: a query may find samples of its own group.
        negatives: With ``across``, the samples of other classes that are ranked: ``"all"``;
            ``"same"``, those of the query's group, which may resemble the query only because of the
            group; or ``"other"``, those of other groups, so that similarity within a group has no
            effect. In copairs, ``neg_diffby=[column]``, with ``neg_sameby=[across]`` for
            ``"same"``, and ``neg_diffby=[column, across]`` for ``"other"``.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there are no more samples than k, or a feature is not finite.
        UndefinedMetric: If there is one class, or no class has two samples, or samples in two groups.

    Source:
        Song et al., Deep Metric Learning via Lifted Structured Feature Embedding (2016), for recall@k;
        Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), section 8.4, for the
        mean average precision; Kalinin et al., A Versatile Information Retrieval Framework for Evaluating
        Profile Strength and Similarity (2025), for retrieval across groups, as in copairs.
    """

    k: Sequence[int] = checked(wholes, least=1, default=(1, 5, 10))
    samples: int = checked(whole, least=2, default=10_000)
    split: Split = checked(one_of, choices=SPLITS, default="test")
    column: str = "label"
    across: str | None = None
    negatives: Negatives = checked(one_of, choices=get_args(Negatives), default="all")

    def __post_init__(self) -> None:
        if self.across is None and self.negatives != "all":
            raise ValueError(f"negatives={self.negatives!r} needs across, the column of groups")
        if self.across == self.column:
            raise ValueError(f"column and across must be two columns, not {self.column!r} twice")

    @property
    def columns(self) -> Mapping[str, Sequence[ValueType]]:
        """The columns of classes and of groups."""
        named = [self.column] if self.across is None else [self.column, self.across]
        return dict.fromkeys(named, self.column_types)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``retrieval/recall_at_1``, ... and ``retrieval/map``."""
        measured = of_classes(test if self.split == "test" else train, self.columns)
        x, ids = with_classes(measured, self.column)
        rows = fixed_part(len(x), self.samples)
        x, ids = normalize(x[rows], dim=1), differing_values(self.column, ids[rows], "retrieval")
        if self.k and max(self.k) >= len(x):
            raise ValueError(
                f"k={max(self.k)} needs more samples than {len(x)}: a query and k others"
            )
        # Without groups, each sample is one of its own.
        groups = (
            torch.arange(len(x)) if self.across is None else measured.metadata[self.across][rows]
        )
        queries = (alike(ids) > alike(torch.stack([ids, groups], 1))).nonzero().flatten()
        if not len(queries):
            has = "two measured samples"
            if self.across is not None:
                has = f"measured samples in two values of {self.across!r}"
            raise UndefinedMetric(
                f"no class of column {self.column!r} has {has}: retrieval is undefined"
            )
        blocks = []
        for some in queries.split(max(1, 2**24 // len(x))):
            right, candidates = ranked(x, ids, some, groups, self.negatives)
            first = right.byte().argmax(1)
            blocks.append((first, average_precisions(right), right.sum(1), candidates))
        first, precision, right_ones, others = map(torch.cat, zip(*blocks, strict=True))
        samples, same = SAMPLES[self.split], f"of the same {self.column}"
        if self.across is not None:
            same += f" and another {self.across}"
        with over_rows(rows[queries], len(measured.features)):
            measures = {
                f"recall_at_{k}": (
                    mean(first < k),
                    f"the share of the {samples} with one {same} among the {k} most similar others",
                    hit_by_chance(others, right_ones, k).mean().item(),
                )
                for k in self.k
            }
            measures["map"] = (
                mean(precision),
                f"the mean average precision with which the {samples} rank those {same} before others",
                precision_by_chance(others, right_ones).mean().item(),
            )
        across = "" if self.across is None else f"_across_{self.across}"
        begin = name_prefix(f"retrieval{across}", self.column)
        return [score(f"{begin}/{name}", self.column, *each) for name, each in measures.items()]


def ranked(
    x: Tensor, ids: Tensor, queries: Tensor, groups: Tensor, negatives: Negatives = "all"
) -> tuple[Tensor, Tensor]:
    """(q, n - 1) whether the samples, most similar first, are right; (q,) the number of candidates.

    A right sample has the query's class and another group. Among equally similar samples, those of
    other classes come first, so that the order of rows has no effect; samples that are not
    candidates come last.

    Args:
        x: (n, f) of unit length.
        ids: (n,) class ids.
        queries: (q,) rows of x.
        groups: (n,) ids of groups.
        negatives: The samples of other classes that are candidates.
    """
    of_class, of_group = ids == ids[queries, None], groups == groups[queries, None]
    right, wrong = of_class & ~of_group, ~of_class
    if negatives != "all":
        wrong &= of_group if negatives == "same" else ~of_group
    candidates = right | wrong
    similar = (x[queries] @ x.T).masked_fill_(~candidates, -torch.inf)
    wrong_first = right.byte().argsort(dim=1, stable=True)
    order = similar.gather(1, wrong_first).argsort(dim=1, descending=True, stable=True)[:, :-1]
    return right.gather(1, wrong_first.gather(1, order)), candidates.sum(1)


def alike(ids: Tensor) -> Tensor:
    """(n,) for each row of ids, (n,) or (n, c), the number of rows equal to it."""
    _, place, counts = ids.unique(dim=0, return_inverse=True, return_counts=True)
    return counts[place]


def hit_by_chance(candidates: int | Tensor, right: Tensor, k: int) -> Tensor:
    """(q,) the probability that a right candidate is among the first k of a random ranking.

    Args:
        candidates: The number of ranked samples, for each query (q,) or for all.
        right: (q,) the number of right candidates of each query, 1 or more.
        k: Ranks, 1 or more.
    """
    wrong = candidates - right.double()
    ranks = torch.arange(k, dtype=torch.float64)
    # Each rank in turn has one of the wrong candidates that are left.
    wrong_left = (wrong[:, None] - ranks).clamp_min(0)
    missed = wrong_left / (wrong_left + right[:, None])
    return 1 - missed.prod(dim=1)


def precision_by_chance(candidates: Tensor, right: Tensor) -> Tensor:
    """(q,) the expected average precision of a random ranking; the arguments are those of `hit_by_chance`.

    The precision at the rank r of a right candidate counts this candidate, and the expected share
    of right ones among the r - 1 before it.
    """
    harmonic = (1 / torch.arange(1, int(candidates.max()) + 1, dtype=torch.float64)).cumsum(0)
    first = harmonic[candidates - 1] / candidates
    return first + (1 - first) * (right.double() - 1) / (candidates - 1).clamp_min(1)


def average_precisions(right: Tensor) -> Tensor:
    """(q,) the mean, over the samples of a query's class, of the precision at their ranks.

    Args:
        right: (q, m) bool, whether the sample of each rank is of the query's class; one is.
    """
    ranks = torch.arange(1, right.shape[1] + 1, dtype=torch.float64)
    return (right * right.cumsum(1) / ranks).sum(1) / right.sum(1)

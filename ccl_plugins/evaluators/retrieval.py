"""Retrieval of samples of the same class by their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    score,
    with_classes,
)
from ccl_plugins.evaluators.intervals import mean
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric


@dataclass(eq=False, repr=False)
class Retrieval(OfColumn):
    """Retrieval of samples of the same class by the cosine similarity of frozen features.

    Each sample is a query that ranks all others of its split.  Gives ``"retrieval/recall_at_1"``, the
    fraction of queries with a sample of their class among the first k, for each k, and
    ``"retrieval/map"``, the mean of the average precisions of the whole rankings.  For another column,
    ``"retrieval-<column>/..."``.  Queries whose class has no other sample are left out; of equally similar
    samples, those of other classes come first.

    Split: queries and the samples that they rank are those of ``split``; nothing is fitted and nothing
    selected.

    Args:
        k: Ranks of the recall, 1 or more each, below the number of samples.
        samples: The most samples, 2 or more; of a larger split so many of a fixed shuffle, the same for
            all runs.  Takes time that grows with their square.
        split: ``"test"`` or ``"train"``.
        column: Categorical column of the metadata; samples without a class are left out, and a warning
            counts them.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there are no more samples than k, or a feature is not finite.
        UndefinedMetric: If there is one class, or no class has two samples.

    Source:
        Song et al., Deep Metric Learning via Lifted Structured Feature Embedding (2016), for recall@k;
        Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), section 8.4, for the
        mean average precision.
    """

    k: Sequence[int] = checked(wholes, least=1, default=(1, 5, 10))
    samples: int = checked(whole, least=2, default=10_000)
    split: Split = checked(one_of, choices=SPLITS, default="test")
    column: str = "label"

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``retrieval/recall_at_1``, ... and ``retrieval/map``."""
        x, ids = with_classes(test if self.split == "test" else train, self.column)
        rows = fixed_part(len(x), self.samples)
        x, ids = normalize(x[rows], dim=1), differing_values(self.column, ids[rows], "retrieval")
        if self.k and max(self.k) >= len(x):
            raise ValueError(
                f"k={max(self.k)} needs more samples than {len(x)}: a query and k others"
            )
        _, index, sizes = ids.unique(return_inverse=True, return_counts=True)
        queries = (sizes[index] > 1).nonzero().flatten()
        if not len(queries):
            raise UndefinedMetric(
                f"no class of column {self.column!r} has two measured samples: retrieval is undefined"
            )
        hits = [ranked(x, index, each) for each in queries.split(max(1, 2**24 // len(x)))]
        samples, same = SAMPLES[self.split], f"of the same {self.column}"
        others, right_ones = len(x) - 1, (sizes[index] - 1)[queries]
        measures = {
            f"recall_at_{k}": (
                mean(torch.cat([right[:, :k].any(dim=1) for right in hits])),
                f"the share of the {samples} with one {same} among the {k} most similar others",
                hit_by_chance(others, right_ones, k).mean().item(),
            )
            for k in self.k
        }
        measures["map"] = (
            mean(torch.cat([average_precisions(right) for right in hits])),
            f"the mean average precision with which the {samples} rank those {same} before others",
            precision_by_chance(others, right_ones).mean().item(),
        )
        begin = name_prefix("retrieval", self.column)
        return [score(f"{begin}/{name}", self.column, *each) for name, each in measures.items()]


def ranked(x: Tensor, ids: Tensor, queries: Tensor) -> Tensor:
    """(q, n - 1) whether the samples, most similar first and without the query, are of its class.

    Of equally similar samples, those of other classes come first, so that the order of rows says nothing.

    Args:
        x: (n, f) of unit length.
        ids: (n,) class ids.
        queries: (q,) rows of x.
    """
    similar = x[queries] @ x.T
    similar.scatter_(1, queries[:, None], -torch.inf)
    right = ids == ids[queries, None]
    wrong_first = right.byte().argsort(dim=1, stable=True)
    order = similar.gather(1, wrong_first).argsort(dim=1, descending=True, stable=True)[:, :-1]
    return right.gather(1, wrong_first.gather(1, order))


def hit_by_chance(candidates: int, right: Tensor, k: int) -> Tensor:
    """(q,) how likely one of the right candidates is among the first k of a random ranking.

    Args:
        candidates: How many are ranked.
        right: (q,) how many of them are right for each query, 1 or more.
        k: Ranks, 1 to the number of candidates.
    """
    wrong = candidates - right.double()
    ranks = torch.arange(k, dtype=torch.float64)
    # Each rank in turn has one of the wrong candidates that are left.
    missed = (wrong[:, None] - ranks).clamp_min(0) / (candidates - ranks)
    return 1 - missed.prod(dim=1)


def precision_by_chance(candidates: int, right: Tensor) -> Tensor:
    """(q,) the expected average precision of a random ranking; the arguments are those of `hit_by_chance`.

    The precision at the rank r of a right candidate counts it, and of the r - 1 before it the share that
    is right among the other candidates.
    """
    first = (1 / torch.arange(1, candidates + 1, dtype=torch.float64)).mean()
    return first + (1 - first) * (right.double() - 1) / max(candidates - 1, 1)


def average_precisions(right: Tensor) -> Tensor:
    """(q,) the mean, over the samples of a query's class, of the precision at their ranks.

    Args:
        right: (q, m) bool, whether the sample of each rank is of the query's class; one is.
    """
    ranks = torch.arange(1, right.shape[1] + 1, dtype=torch.float64)
    return (right * right.cumsum(1) / ranks).sum(1) / right.sum(1)

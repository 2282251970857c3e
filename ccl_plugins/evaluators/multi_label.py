"""Average precision of linear probes of several attributes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole
from ccl_plugins.evaluators.columns import (
    OfColumn,
    groups_at,
    in_words,
    rows_with_bits,
    score,
    with_bits,
)
from ccl_plugins.evaluators.intervals import Estimate, estimate
from ccl_plugins.evaluators.linear import Reg, checked_reg, fit_probe
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class MultiLabel(OfColumn):
    """Average precision of linear classifiers of several attributes, each present or absent.

    Each attribute of the column has a classifier on frozen features, fitted by L-BFGS, see
    `linear`. Gives ``"<column>/map"``, the mean over attributes of the average precision of the
    classifier's ranking of the test samples, whose chance level is the mean share of samples with
    the attribute; and ``"<column>/balanced"``, the mean of the balanced accuracies, whose chance
    level is 0.5. An attribute with the same value in all samples of a split defines neither, and is
    left out with a warning.

    Split: fitted to the training split, measured on the test split.  Selection: none, or with
    ``reg="validation"`` on a part of the training split, for each attribute.

    Args:
        column: Multi-label column of the metadata; samples without one of the values are left out, and a
            warning counts them.
        reg: Weight of the penalty, as in `linear`; None: 0.001 times the mean variance of the features.
        max_iter: The most L-BFGS steps, 1 or more.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not multi-label,
            the splits' columns differ in width, or a feature is not finite.
        UndefinedMetric: If no attribute has both values in both splits.

    Source:
        Everingham et al., The PASCAL Visual Object Classes Challenge (2010), with the average precision as
        the sum over ranks, as in scikit-learn and torchmetrics.
    """

    column_types = ("multi_label",)
    column: str = "attributes"
    reg: Reg = checked(checked_reg, default=None)
    max_iter: int = checked(whole, least=1, default=1000)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``attributes/map`` and ``attributes/balanced``."""
        rows, known = rows_with_bits(train, self.column)
        x, groups = train.features[rows].double(), groups_at(train, rows)
        x_test, bits = with_bits(test, self.column)
        if known.shape[1] != bits.shape[1]:
            raise ValueError(
                f"column {self.column!r} has {known.shape[1]} entries a sample in training and "
                f"{bits.shape[1]} in testing"
            )
        both = [each.any(dim=0) & ~each.all(dim=0) for each in (known, bits)]
        places = (both[0] & both[1]).nonzero().flatten().tolist()
        if not places:
            raise UndefinedMetric(
                f"no attribute of column {self.column!r} has both values in the training and in the test"
                " split: average precision is undefined"
            )
        if len(places) < bits.shape[1]:
            logger.warning(
                "%d of %d attributes of %r have one value in a split, and are not measured",
                bits.shape[1] - len(places),
                bits.shape[1],
                self.column,
            )
        fits = [
            fit_probe(x, known[:, i].long(), self.reg, self.max_iter, f"{self.column}[{i}]", groups)
            for i in places
        ]
        scores = torch.stack([fit.logits(x_test).diff(dim=1)[:, 0] for fit in fits], dim=1)
        bits = bits[:, places]
        precisions = average_precision(scores, bits)

        def over_entries(measure: Callable[[Tensor], Tensor]) -> Estimate:
            return estimate(len(bits), lambda counts: measure(counts).nanmean(dim=1))

        some = "" if len(places) == known.shape[1] else f"{len(places)} of {known.shape[1]} "
        of = f"of a linear classifier on the test samples, as the mean over {some or 'the '}entries of"
        measures = {
            "map": (
                over_entries(precisions),
                f"the average precision {of} {in_words(self.column)}",
                bits.double().mean().item(),
            ),
            "balanced": (
                over_entries(lambda counts: _balanced(scores > 0, bits, counts)),
                "the share of right predictions, both values with the same weight,"
                f" {of} {in_words(self.column)}",
                0.5,
            ),
        }
        return [
            score(f"{self.column}/{name}", self.column, *each) for name, each in measures.items()
        ]


def average_precision(scores: Tensor, bits: Tensor) -> Callable[[Tensor], Tensor]:
    """(k, c) average precisions of c rankings, from (k, n) counts of samples in k draws.

    Each is the sum over the different scores s, from the highest, of the precision among samples with a
    score of s or more, times the share of positive samples whose score is s; NaN without a positive sample.

    Args:
        scores: (n, c).
        bits: (n, c) bool, the positive samples.
    """
    rankings = []
    for column, positive in zip(scores.T, bits.T, strict=True):
        order = column.argsort(descending=True)
        ranked = column[order]
        # Samples of equal scores are retrieved together: as many as up to the last of them.
        last = torch.searchsorted(-ranked, -ranked, right=True) - 1
        ties = None if last.equal(torch.arange(len(last))) else last
        rankings.append((order, positive[order], ties))

    def of_draws(counts: Tensor) -> Tensor:
        averages = []
        for order, positive, ties in rankings:
            weights = counts[:, order]
            right = weights * positive
            # In draws of groups, a sample may count less than once.
            least = torch.finfo(counts.dtype).tiny
            precision = right.cumsum(1).div_(weights.cumsum(1).clamp_min_(least))
            if ties is not None:
                precision = precision[:, ties]
            averages.append((right * precision).sum(1) / right.sum(1))
        return torch.stack(averages, dim=1)

    return of_draws


def _balanced(predicted: Tensor, bits: Tensor, counts: Tensor) -> Tensor:
    """(k, c) the mean of the fractions of positive and of negative samples that are predicted."""
    halves = []
    for value in (True, False):
        own = (bits == value).double()
        halves.append((counts @ (own * (predicted == value))) / (counts @ own))
    return (halves[0] + halves[1]) / 2

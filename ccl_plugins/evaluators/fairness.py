"""Differences of a linear probe between groups of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole
from ccl_plugins.evaluators.columns import (
    differing_values,
    groups_at,
    in_words,
    of_classes,
    of_known_classes,
    rows_with_classes,
    with_classes,
)
from ccl_plugins.evaluators.intervals import FEW, drawn_apart, estimate, tally
from ccl_plugins.evaluators.linear import Reg, checked_reg, fit_probe
from ccl_plugins.protocols import Direction, Frozen, Measurement, UndefinedMetric

Statistic: TypeAlias = Callable[[Tensor, list[int]], Tensor]
"""Takes (k, groups, classes, classes) counts of k draws and the classes to compare; returns (k,)
numbers."""


@dataclass(eq=False, repr=False)
class Fairness:
    """Differences between groups of the predictions of a linear probe, which does not see the group.

    The classifier of `linear` predicts the target.  Gives, with P over the test samples, y the true class
    and ŷ the predicted one, ``"fairness-<column>/..."``

    - ``worst_group``: the least accuracy of a group.
    - ``worst_subgroup``: the least accuracy of the samples of one class in one group.
    - ``demographic_parity``: the largest difference of ``P(ŷ = c | group)`` between two groups.
    - ``equalized_odds``: the largest difference of ``P(ŷ = c | y = b, group)`` between two groups.
    - ``equal_opportunity``: the largest difference of ``P(ŷ = c | y = c, group)`` between two groups.

    The differences are taken over all classes c and b; 0 is best.  A class that a group lacks is not
    compared in this group. If the smallest compared group or subgroup has fewer than 10 samples, or
    samples of fewer than 10 patients or other units that belong together, there is no interval: draws
    repeat these few, which makes the interval too narrow.

    Split: fitted to the training split, measured on the test split.  Selection: none, or with
    ``reg="validation"`` on a part of the training split.

    Args:
        column: Categorical column of the metadata that names the group of a sample; samples without a
            group or a class are left out, and a warning counts them.
        target: Categorical column that the classifier predicts.
        positive: The class id c of ``demographic_parity`` and ``equal_opportunity``, such as the
            favorable of two decisions; None: the largest difference over all classes.
        reg: Weight of the penalty, see `linear`; None: 0.001 times the mean variance of the
            features.
        max_iter: The most L-BFGS steps, 1 or more.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there is one class only, or a feature is not finite.
        UndefinedMetric: If the test split has one group or no sample of the class ``positive``, or
            if no class (or ``positive``, if given) has samples in two groups.

    Source:
        Sagawa et al., Distributionally Robust Neural Networks for Group Shifts (2020): the worst group,
        where groups are `worst_subgroup`'s; Dwork et al., Fairness Through Awareness (2012):
        parity; Hardt, Price and Srebro, Equality of Opportunity in Supervised Learning (2016): odds and
        opportunity; for more than two groups and classes the largest difference, as in fairlearn.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"column": "group"}

    column: str
    target: str = "label"
    positive: int | None = None
    reg: Reg = checked(checked_reg, default=None)
    max_iter: int = checked(whole, least=1, default=1000)

    def __post_init__(self) -> None:
        self.columns = {self.column: ("categorical",), self.target: ("categorical",)}

    @of_known_classes("target")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``fairness-group/worst_group``, ..."""
        rows, target = rows_with_classes(train, self.target)
        given = (self.reg, self.max_iter, self.target, groups_at(train, rows))
        fit = fit_probe(train.features[rows].double(), target, *given)
        test = of_classes(test, self.columns)
        group = differing_values(
            self.column, rows_with_classes(test, self.column)[1], "a gap between groups"
        )
        x, ids = with_classes(test, self.target)
        groups, group = group.unique(return_inverse=True)
        classes = fit.classes
        if self.positive is not None and self.positive not in ids:
            lacks = "" if self.positive in classes else ", or training lacks it"
            raise UndefinedMetric(
                f"column {self.target!r} has no sample of class {self.positive} in the test split{lacks}:"
                " equal opportunity is undefined"
            )
        place = [torch.searchsorted(classes, each) for each in (ids, fit.predict(x))]
        chosen = range(len(classes))
        if self.positive is not None:
            (chosen,) = (classes == self.positive).nonzero().tolist()
        size = (len(groups), len(classes), len(classes))
        width = math.prod(size)
        cells = (group * size[1] + place[0]) * size[2] + place[1]
        in_group, in_class = drawn_apart(group), drawn_apart(group * size[1] + place[0])
        names = {"group": in_words(self.column), "target": in_words(self.target)}
        measurements = []
        for statistic, (better, words) in STATISTICS.items():
            name = statistic.__name__

            def measured(counts: Tensor, statistic: Statistic = statistic) -> Tensor:
                return statistic(tally(counts, cells, width).reshape(-1, *size), list(chosen))

            numbers = estimate(len(ids), measured, width)
            if math.isnan(numbers["value"]):
                which = "no class" if self.positive is None else f"class {self.positive}"
                has = "has samples" if self.positive is None else "has no samples"
                raise UndefinedMetric(
                    f"{which} of {self.target!r} {has} in two groups of {self.column!r} in the test split:"
                    f" {name} is undefined"
                )
            sentence = f"{words.format(**names)}, of a linear classifier on the test samples"
            fewest = int(in_class.min() if statistic in OF_CLASSES else in_group.min())
            if fewest < FEW:  # if three of three are right, so are all draws
                numbers["interval"] = None
                what = "class in a group" if statistic in OF_CLASSES else "group"
                has = f"{fewest} samples"
                if test.groups is not None:
                    has = f"samples in {fewest} of the groups that are drawn"
                sentence += f"; the smallest {what} has {has}, too few for an interval"
            name = f"fairness-{self.column}/{name}"
            measurements.append(Measurement(name, **numbers, sentence=sentence, direction=better))
        return measurements


def worst_group(table: Tensor, chosen: list[int]) -> Tensor:
    """(k,) the least accuracy of a group.

    Args:
        table: (k, groups, classes, classes) counts of group, class and prediction in k draws.
        chosen: The classes that are compared, for other statistics.
    """
    right = table.diagonal(dim1=2, dim2=3).sum(-1)
    return least(right / table.sum((2, 3)), 1)


def worst_subgroup(table: Tensor, chosen: list[int]) -> Tensor:
    """(k,) the least accuracy of a class in a group."""
    return least(table.diagonal(dim1=2, dim2=3) / table.sum(3), (1, 2))


def demographic_parity(table: Tensor, chosen: list[int]) -> Tensor:
    """(k,) the largest difference between groups of the rate of a prediction."""
    rates = table.sum(2) / table.sum((2, 3))[..., None]
    return gap(rates[:, :, chosen])


def equalized_odds(table: Tensor, chosen: list[int]) -> Tensor:
    """(k,) the largest difference between groups of the rate of a prediction among a class."""
    return gap((table / table.sum(3, keepdim=True)).flatten(2))


def equal_opportunity(table: Tensor, chosen: list[int]) -> Tensor:
    """(k,) the largest difference between groups of the part of a class that is recognized."""
    recall = table.diagonal(dim1=2, dim2=3) / table.sum(3)
    return gap(recall[:, :, chosen])


def least(rates: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """The least rate; NaN is ignored."""
    return rates.nan_to_num(nan=torch.inf).amin(dim)


def gap(rates: Tensor) -> Tensor:
    """(k,) the largest difference between groups of rates (k, groups, r); NaN groups are not compared."""
    low = rates.nan_to_num(nan=torch.inf).amin(1)
    high = rates.nan_to_num(nan=-torch.inf).amax(1)
    two = (~rates.isnan()).sum(1) > 1
    gaps = torch.where(two, high - low, -1.0).amax(1)
    return torch.where(gaps < 0, torch.nan, gaps)


OF_CLASSES = (worst_subgroup, equalized_odds, equal_opportunity)
"""The measurements that compare classes in groups, not whole groups."""

LEAST = "the least share of right predictions of {target} "
BETWEEN = "the largest difference between groups of {group} in how often "

STATISTICS: dict[Statistic, tuple[Direction, str]] = {
    worst_group: ("higher", LEAST + "in a group of {group}"),
    worst_subgroup: ("higher", LEAST + "for a class in a group of {group}"),
    demographic_parity: ("lower", BETWEEN + "a class of {target} is predicted"),
    equalized_odds: ("lower", BETWEEN + "samples of a class of {target} get a prediction"),
    equal_opportunity: ("lower", BETWEEN + "samples of a class of {target} are predicted right"),
}
"""The measurements: whether higher or lower is better, and the sentence about a group and a target."""

"""Accuracy of a probe of a column that is fitted within the measured samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, one_of, whole
from ccl_plugins.evaluators.columns import (
    OfColumn,
    accuracy,
    differing_values,
    in_words,
    name_prefix,
    rows_with_classes,
    score,
    with_numbers,
)
from ccl_plugins.evaluators.intervals import over_rows, warn_once
from ccl_plugins.evaluators.knn import nearest, neighbors
from ccl_plugins.evaluators.linear import fit_probe, named_by_least_squares, refuse_too_many
from ccl_plugins.evaluators.regression import explained, ridge_regression
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric

Probe = Literal["linear", "least_squares", "knn"]
"""The probes that can be fitted to the samples of the other folds."""

TEMPERATURE = 0.1
"""The temperature of the neighbors' votes, see `knn`."""


@dataclass(eq=False, repr=False)
class Held(OfColumn):
    """Accuracy of a probe of a column that is fitted and tested within the test samples.

    If whole groups are held out, such as plates or patients, the training split has none of their
    values. A probe fitted to it cannot predict them, even if the features distinguish them clearly.
    Here the test samples are divided into folds, and a probe fitted to all other folds predicts
    each fold. Gives ``"held/top1"``, the fraction of test samples whose class is predicted; for
    another column ``"held-<column>/top1"`` if it holds class ids, or ``"held-<column>/r2"``, the
    explained variance averaged over its entries, if it holds numbers. Reports use it for columns
    other than the label.

    A class of one sample cannot be in two folds: it is left out, and the sentence counts it.
    Samples of a group are in several folds. So if each value of a column occurs in a few groups
    only, the probe may read the value from traits of these groups.

    Split: fitted to and measured on the test split, in folds of a fixed shuffle in which classes have equal
    shares; the training split is not read. Selection: none; for numbers and for least squares, the
    penalty, by the samples that the probe is fitted to.

    Args:
        column: Categorical or continuous column of the metadata; samples without a value are left out, and
            a warning counts them.
        probe: ``"linear"``, which is `linear` for class ids and `regression` for numbers;
            ``"least_squares"``, which is quick enough to watch a run; or ``"knn"``.
        folds: The number of folds, 2 or more; at most the number of samples of the largest class.
        k: The neighbors of ``"knn"``; at most all samples of the other folds.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or of another type,
            or a feature is not finite.
        UndefinedMetric: If fewer than two classes have two samples; if there are fewer than three samples
            with numbers, or an entry of them is constant.

    Source:
        Stone, Cross-Validatory Choice and Assessment of Statistical Predictions (1974).
    """

    within = True

    column_types = ("categorical", "continuous")
    column: str = "label"
    probe: Probe = checked(one_of, choices=get_args(Probe), default="linear")
    folds: int = checked(whole, least=2, default=5)
    k: int = checked(whole, least=1, default=20)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``held/top1``, or ``held-<column>/r2``."""
        values = torch.as_tensor(test.metadata.get(self.column, torch.zeros(0).long()))
        return [self._of_numbers(test) if values.is_floating_point() else self._of_classes(test)]

    def _of_classes(self, test: Frozen) -> Measurement:
        from sklearn.model_selection import StratifiedKFold

        rows, ids = rows_with_classes(test, self.column)
        _, index, counts = ids.unique(return_inverse=True, return_counts=True)
        kept = counts[index] > 1
        left_out = ""
        if single := int((~kept).sum()):
            left_out = (
                f"{single} of {len(ids)} samples are left out, the only ones of their classes"
            )
        if not kept.any():
            raise UndefinedMetric(
                f"no class of column {self.column!r} has two measured samples: a probe within them is"
                " undefined"
            )
        rows, ids = rows[kept], differing_values(self.column, ids[kept], "a probe within them")
        if left_out:
            warn_once(f"column {self.column!r}, within the measured samples: {left_out}")
        x = test.features[rows].double()
        if self.probe != "knn":
            refuse_too_many(x, ids, self.column)
        predicted = torch.empty_like(ids)
        for fit, out in _dealt(StratifiedKFold, min(self.folds, int(counts.max())), ids):
            predicted[out] = self._named(x[fit], ids[fit], x[out])
        by = {"knn": "a vote of the most similar others"}.get(
            self.probe, "a linear classifier fitted to others"
        )
        with over_rows(rows, len(test.features)):
            found = accuracy("held", self.column, predicted == ids, ids, f"{by} of them")
        return replace(found, sentence="; ".join(filter(None, (found.sentence, left_out))))

    def _named(self, x: Tensor, ids: Tensor, x_test: Tensor) -> Tensor:
        """The classes of the samples of a fold."""
        if self.probe == "knn":
            return nearest(x_test, x, ids, min(self.k, len(x)), TEMPERATURE)
        if self.probe == "least_squares":
            return named_by_least_squares(x, ids, x_test)
        return fit_probe(x, ids, None, 1000, self.column).predict(x_test)

    def _of_numbers(self, test: Frozen) -> Measurement:
        from sklearn.model_selection import KFold

        x, values = with_numbers(test, self.column)
        if len(values) < 3:
            raise UndefinedMetric(
                f"column {self.column!r} has {len(values)} measured samples: folds need three or more"
            )
        for entry in values.T:
            differing_values(self.column, entry, "r2")
        predicted = torch.empty_like(values)
        for fit, out in _dealt(KFold, min(self.folds, len(values)), values[:, 0]):
            predicted[out] = self._predicted(x[fit], values[fit], x[out])
        by = {"knn": "the mean of the most similar others"}.get(
            self.probe, "a linear regression fitted to others"
        )
        share = f"the share of the variance of {in_words(self.column)} in the test samples that"
        found = explained((predicted - values).square(), values)
        name = f"{name_prefix('held', self.column)}/r2"
        return score(name, self.column, found, f"{share} {by} of them explains", 0.0)

    def _predicted(self, x: Tensor, values: Tensor, x_test: Tensor) -> Tensor:
        """(m, c) the numbers of the samples of a fold."""
        if self.probe == "linear":
            return ridge_regression(x, values, x_test, reg=None)
        if self.probe == "least_squares":
            return ridge_regression(x, values, x_test, reg="gcv")
        similar, near = neighbors(x_test, x, min(self.k, len(x)))
        votes = (similar / TEMPERATURE).exp()[..., None]
        return (votes * values[near]).sum(1) / votes.sum(1)


def _dealt(kind: Any, folds: int, ids: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows to fit to and the rows to predict, for each fold of a fixed shuffle."""
    with warnings.catch_warnings():  # a class may have fewer samples than there are folds
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        parts = [*kind(folds, shuffle=True, random_state=0).split(ids, ids)]
    for fit, out in parts:
        yield torch.from_numpy(fit), torch.from_numpy(out)

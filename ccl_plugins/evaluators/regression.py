"""Error of a linear regression of a continuous column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import checked
from ccl_plugins.evaluators.columns import (
    OfColumn,
    differing_values,
    in_words,
    score,
    variance,
    with_numbers,
)
from ccl_plugins.evaluators.intervals import Estimate, estimate, mean
from ccl_plugins.evaluators.least_squares import least_squares
from ccl_plugins.evaluators.linear import checked_reg
from ccl_plugins.protocols import Frozen, Measurement

PENALTIES = [10.0 ** (power / 2) for power in range(-20, 9)]
"""Weights of the penalty that are compared, relative to the mean variance of the features."""


@dataclass(eq=False, repr=False)
class Regression(OfColumn):
    """Error of a linear regression on frozen features, for example of a sensitive attribute.

    Minimizes ``mean over all entries of (prediction - value)² + reg |W|²``, without a penalty on the bias,
    in closed form. By default ``reg`` is chosen on the training samples, by leave-one-out error. No
    fixed value suits all data: 512 features of 520 samples that say little about the column give an
    R² of -38 on new samples with 1e-6, and 0.00 with the chosen value.

    Gives, on the test samples, ``"<column>/r2"``, the explained variance averaged over columns,
    ``"<column>/mse"`` in the column's units squared, averaged over samples and columns, and for colors
    ``"<column>/mse255"``.  A high error means that the features hide the attribute.

    Split: fitted to the training split, measured on the test split.  Selection: by the training samples.

    Args:
        column: Continuous column of the metadata that is predicted; samples without a value are left
            out, and a warning counts them.
        reg: Weight of the penalty, above 0, in units of features²; the same for any unit of the column.
            None: chosen among 29 values, 1e-10 to 1e4 times the features' mean variance, by the
                leave-one-out error on the training samples. ``"gcv"``: by generalized
                cross-validation, which gives a similar value and is quick enough to watch a run.
        eight_bit: Whether to add ``mse255``, the error of a column in [0, 1] in units of 0 to 255;
            None: only for the column called ``color``.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not continuous,
            the splits' columns differ in width, a value is infinite, or there are fewer than two samples.
        UndefinedMetric: If an entry of the column is constant in the test split, because R² is then
            undefined.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), section 4.2 and appendix
        B; their code reports the least error over epochs, which is not the fairest epoch, and stops
        at the tolerance of its optimizer.
    """

    column_types = ("continuous",)
    column: str = "color"
    reg: float | Literal["gcv"] | None = checked(checked_reg, way="gcv", default=None)
    eight_bit: bool | None = None

    def __post_init__(self) -> None:
        if self.eight_bit is None:
            self.eight_bit = self.column == "color"

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``color/r2``, ``color/mse`` and ``color/mse255``."""
        x_test, values = with_numbers(test, self.column)
        if len(values) < 2:
            raise ValueError("r2 needs two test samples or more, but there is one")
        x, known = with_numbers(train, self.column)
        if len(known) < 2:
            raise ValueError("a regression needs two training samples or more, there is one")
        if known.shape[1] != values.shape[1]:
            raise ValueError(
                f"column {self.column!r} has {known.shape[1]} entries a sample in training and "
                f"{values.shape[1]} in testing"
            )
        for entry in values.T:
            differing_values(self.column, entry, "r2")
        errors = (ridge_regression(x, known, x_test, reg=self.reg) - values).square()
        share = f"the share of the variance of {in_words(self.column)} in the test samples that a linear"
        words, r2 = f"{share} regression explains", explained(errors, values)
        measurements = [score(f"{self.column}/r2", self.column, r2, words, 0.0)]
        units = {"mse": (1.0, ""), "mse255": (255.0**2, ", in units of 0 to 255")}
        for name, (unit, words) in units.items():
            if name == "mse" or self.eight_bit:
                error = Measurement(
                    f"{self.column}/{name}",
                    **mean(unit * errors.mean(dim=1)),
                    sentence="the mean squared error of a linear regression of"
                    f" {in_words(self.column)} on the test samples{words}",
                    column=self.column,
                    direction="lower",
                    chance=unit * variance(values),
                )
                measurements.append(error)
        return measurements


def explained(errors: Tensor, values: Tensor) -> Estimate:
    """The mean over columns of ``1 - sum of squared errors / sum of squared distances to the mean``.

    Args:
        errors: (n, c) squared errors.
        values: (n, c) the true values; no column is constant.
    """
    values = values - values.mean(dim=0)
    tiny = 1e-12 * values.square().sum(dim=0)

    def r2(counts: Tensor) -> Tensor:
        total = counts @ values.square() - (counts @ values).square() / len(values)
        # A draw of equal values has no R².
        return (1 - (counts @ errors) / total.masked_fill(total <= tiny, torch.nan)).mean(dim=1)

    return estimate(len(values), r2)


def ridge_regression(
    x: Tensor, y: Tensor, x_test: Tensor, *, reg: float | Literal["gcv"] | None
) -> Tensor:
    """Predictions (n, c) for x_test (n, f), of the ridge regression of y (N, c) on x (N, f).

    ``reg=None`` chooses from `PENALTIES`, times the mean variance of x, by the leave-one-out error;
    ``"gcv"`` chooses like `least_squares`.
    """
    if reg == "gcv":
        weight, bias = least_squares(x, y)
        return x_test @ weight + bias
    from sklearn.linear_model import Ridge, RidgeCV

    # scikit-learn minimizes a sum over all entries.
    if reg is None:
        unit = y.numel() * variance(x)
        model = RidgeCV(alphas=[unit * penalty for penalty in PENALTIES])
    else:
        # Features of a trained network are often collinear: the solver by singular values needs no full
        # rank and does not warn.
        model = Ridge(alpha=reg * y.numel(), solver="svd")
    predicted = torch.from_numpy(model.fit(x.numpy(), y.numpy()).predict(x_test.numpy()))
    return predicted.reshape(len(x_test), -1)

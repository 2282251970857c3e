"""Accuracy of a linear probe."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ccl_plugins.arguments import checked, positive, whole, word
from ccl_plugins.evaluators.columns import (
    OfColumn,
    center_and_variance,
    differing_values,
    groups_at,
    name_prefix,
    of_known_classes,
    rows_with_classes,
    score,
    top1,
    two_classes,
    variance,
    with_classes,
)
from ccl_plugins.evaluators.intervals import estimate, tally
from ccl_plugins.evaluators.least_squares import least_squares
from ccl_plugins.files.mapped import Filling, blocks
from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.protocols import Frozen, Measurement

logger = logging.getLogger(__name__)

Reg = float | Literal["validation"] | None
"""The weight of a penalty, the way to choose it, or None for `DEFAULT`."""

DEFAULT = 1e-3
"""The default weight of the penalty, relative to the mean variance of the features."""

MOST = 2**35
"""The most bytes of the scores of all training samples and classes."""

PENALTIES = [10.0**power for power in range(1, -7, -1)]
"""Weights of the penalty that are compared, relative to the mean variance of the features."""


def checked_reg(name: str, reg: Any, way: str = "validation") -> Any:
    """``reg``, if it is None, the name of the way to choose it, or a number above 0."""
    if reg is None or reg == way:
        return reg
    if isinstance(reg, str):
        raise ValueError(f"{name} must be a number above 0, {way!r} or None, not {reg!r}")
    return positive(name, reg)


@dataclass(eq=False, repr=False)
class LinearProbe(OfColumn):
    """Accuracy of a linear classifier on frozen features, fitted by L-BFGS or least squares.

    Minimizes ``mean cross-entropy + reg |W|²``, without a penalty on the bias, on the training
    features, without scaling or augmentation. Gives ``"linear/top1"``, the fraction of test samples
    whose class it predicts; for another column, ``"linear-<column>/top1"``.

    Split: fitted to the training split, measured on the test split.  Selection: none, or with
    ``reg="validation"`` on a part of the training split; never on the test split.

    With ``solver="least_squares"`` it minimizes the squared errors of one-hot targets instead, in closed
    form: about as accurate, and quick enough to watch a run.

    Args:
        reg: Weight of the penalty, above 0, in units of features². None: 0.001 times the features'
            mean variance, so that networks with features of different scales can be compared, such
            as an untrained and a trained one. ``"validation"``: the best of 1e-6, 1e-5, ..., 10
            times the mean variance. The probe is fitted to nine tenths of the training samples, by
            a fixed shuffle, and the weight with the most right predictions on the last tenth is
            chosen, or the largest of equal weights; the final probe is fitted to all. If the nine
            tenths have one class, the weight of None is taken. Papers use 1e-5 and 1e-6; these need
            many more steps and, on a small training set, may give a lower test accuracy.
        max_iter: The most L-BFGS steps, 1 or more.  If they do not suffice, a warning is logged.
        balanced: Whether to add ``"linear/balanced"``, the mean over the classes of the test split
            of the fraction of their samples that is predicted right; use it for classes of
            different sizes.
        solver: ``"lbfgs"``, or ``"least_squares"``, whose penalty is chosen on the training samples by
            generalized cross-validation; it takes no ``reg``.

    Raises:
        ValueError: If a parameter is out of its range, and for a ``reg`` of least squares; on use, if a
            column is missing or not categorical, or a feature is not finite.
        UndefinedMetric: If the training split has one class; with ``balanced``, also if the test
            split has one.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), section 4; their code also takes
        the best of several penalties and epochs by test accuracy; this evaluator does not.  Kornblith et
        al., Do Better ImageNet Models Transfer Better? (2019), choose the penalty on a validation part.
    """

    reg: Reg = checked(checked_reg, default=None)
    max_iter: int = checked(whole, least=1, default=1000)
    column: str = "label"
    balanced: bool = False
    solver: Literal["lbfgs", "least_squares"] = word("lbfgs", "least_squares")

    def __post_init__(self) -> None:
        if self.solver == "least_squares" and self.reg is not None:
            raise ValueError(
                f"least squares choose their penalty by cross-validation: leave reg={self.reg!r} "
                "out"
            )

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``linear/top1``, and ``linear/balanced`` if it is asked for."""
        rows, known_ids = rows_with_classes(train, self.column)
        known = train.features if len(rows) == len(train.features) else train.features[rows]
        x, ids = with_classes(test, self.column)
        refuse_too_many(known, known_ids, self.column)
        if self.solver == "least_squares":
            predicted = named_by_least_squares(known, known_ids, x)
        else:
            given = (self.reg, self.max_iter, self.column, groups_at(train, rows))
            predicted = fit_probe(known, known_ids, *given).predict(x)
        measures = [top1, balanced_accuracy] if self.balanced else [top1]
        by = "a linear classifier"
        return [each("linear", self.column, predicted, ids, by) for each in measures]


def named_by_least_squares(x: Tensor, ids: Tensor, x_test: Tensor) -> Tensor:
    """(m,) the classes of features (m, f), by least squares of the ids (n,) of features (n, f)."""
    classes, index = two_classes(ids)
    weight, bias = least_squares(x.double(), one_hot(index).double())
    return classes[(x_test @ weight + bias).argmax(dim=1)]


def refuse_too_many(x: Tensor, ids: Tensor, column: str) -> None:
    """Refuse samples and classes whose scores would not fit into memory."""
    classes = len(ids.unique())
    if (size := 8 * len(x) * classes) > MOST:
        raise ValueError(
            f"a linear probe of the {classes} classes of {column!r} on {len(x)} samples needs"
            f" {size / 2**30:.0f} GiB: measure knn, whose memory does not grow with the classes,"
            " or another column"
        )


def fit_probe(
    x: Tensor, ids: Tensor, reg: Reg, max_iter: int, column: str, groups: Tensor | None = None
) -> SoftmaxRegression:
    """The linear classifier that `LinearProbe` fits to features (n, f) with ids (n,).

    To choose a penalty, samples of the same of the ``groups`` (n,) are held out together.
    """
    unit = variance(x)
    if reg == "validation":
        rows, held_out = validation_rows(len(x), groups)
        if len(ids[rows].unique()) < 2:  # a rare class may be held out whole
            return fit_probe(x, ids, None, max_iter, column)

        def right(penalty: float) -> int:
            fit = softmax_regression(x[rows], ids[rows], reg=penalty * unit, max_iter=max_iter)
            return int((fit.predict(x[held_out]) == ids[held_out]).sum())

        reg = unit * max(PENALTIES, key=right)  # of equals the first, which is the largest
    elif reg is None:
        reg = DEFAULT * unit
    fit = softmax_regression(x, ids, reg=reg, max_iter=max_iter)
    if not fit.converged:
        logger.warning(
            "The linear probe of %r stopped at max_iter=%d steps before its minimum; take a reg "
            "above %g, or a larger max_iter.",
            column,
            max_iter,
            reg,
        )
    return fit


def balanced_accuracy(
    name: str, column: str, predicted: Tensor, ids: Tensor, by: str
) -> Measurement:
    """The mean over the classes in ``ids`` (n,) of the share of their samples that is predicted right.

    The arguments are those of `ccl_plugins.evaluators.columns.top1`.

    Raises:
        UndefinedMetric: If there is one class.
    """
    differing_values(column, ids, "balanced accuracy")
    classes, index = ids.unique(return_inverse=True)
    right = (predicted == ids).double()

    def recall(counts: Tensor) -> Tensor:
        sizes = tally(counts, index, len(classes))
        return (tally(counts * right, index, len(classes)) / sizes).nanmean(dim=1)

    words = f"the share of the test samples whose {column} is named right by {by}"
    words += ", each class with the same weight"
    numbers = estimate(len(ids), recall)
    return score(f"{name_prefix(name, column)}/balanced", column, numbers, words, 1 / len(classes))


@dataclass(frozen=True)
class SoftmaxRegression:
    """A fitted linear classifier.

    Args:
        classes: (c,) ids, in rising order.
        weight: (c, f).
        bias: (c,).
        converged: Whether the minimum was reached within ``max_iter`` steps.
    """

    classes: Tensor
    weight: Tensor
    bias: Tensor
    converged: bool

    def predict(self, x: Tensor) -> Tensor:
        """(n,) class ids of features (n, f)."""
        return self.classes[self.logits(x).argmax(dim=1)]

    def logits(self, x: Tensor) -> Tensor:
        """(n, c) one score per class for features (n, f)."""
        return x.to(self.weight) @ self.weight.T + self.bias


def softmax_regression(
    x: Tensor, y: Tensor, *, reg: float, max_iter: int = 1000, tol: float = 1e-6
) -> SoftmaxRegression:
    """Minimize ``mean cross-entropy + reg |W|²`` over weight W (c, f) and bias.

    Args:
        x: (n, f) features, float32 or float64; the fit is in float64.
        y: (n,) class ids, of two classes or more.
        reg: Weight of the penalty, above 0.
        max_iter: Most steps of L-BFGS.
        tol: Largest entry of the gradient, for features of unit variance, at which the minimum counts as
            reached.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    ids, _ = two_classes(y)
    # The bias is free: centered features have the same minimum, in fewer steps.  So have features in
    # another unit, with the penalty in that unit.
    center, squared_unit = center_and_variance(x)
    unit = squared_unit**0.5
    standardized = Filling(len(x), Path(gettempdir()))
    for rows in blocks(x):
        standardized.add((x[rows] - center) / unit)
    # scikit-learn minimizes C * sum + |W|² / 2.  For two classes it has one row w, whose penalty is twice
    # that of our two rows w/2 and -w/2.
    scale = 2 if len(ids) > 2 else 1
    model = LogisticRegression(C=unit**2 / (scale * reg * len(x)), max_iter=max_iter, tol=tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported by ``converged``
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model.fit(standardized.done()[0].numpy(), y.numpy())
    weight, bias = torch.from_numpy(model.coef_) / unit, torch.from_numpy(model.intercept_)
    if len(ids) == 2:
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    return SoftmaxRegression(
        classes=ids,
        weight=weight,
        bias=bias - weight @ center,
        converged=bool(model.n_iter_.max() < max_iter),
    )

"""Accuracy of a linear probe."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from ccl_plugins.arguments import positive, whole
from ccl_plugins.evaluators.columns import top1, variance, with_classes
from ccl_plugins.protocols import Frozen, ValueType

logger = logging.getLogger(__name__)


class LinearProbe:
    """Accuracy of a linear classifier on frozen features, fitted by L-BFGS.

    Minimizes ``mean cross-entropy + reg |W|²``, without a penalty on the bias, on the training features as
    they are, without scaling or augmentation.  Gives ``"linear/top1"``, the fraction of test samples
    whose class it predicts; for another column, ``"linear-<column>/top1"``.

    Args:
        reg: Weight of the penalty, above 0, in units of features².  None: 0.001 times the features' mean
            variance, so that networks are compared whose features have another scale, as untrained and
            trained ones do.  Papers use 1e-5 and 1e-6; these take many more steps and, on a small
            training set, may give a lower test accuracy.
        max_iter: The most L-BFGS steps, 1 or more.  If they do not suffice, a warning is logged.
        column: Categorical column of the metadata that is predicted; samples without a class are left
            out, and a warning counts them.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there is one class only, or a feature is not finite.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), section 4; their code also takes
        the best of several penalties and epochs by test accuracy; this evaluator does not.
    """

    def __init__(
        self, reg: float | None = None, max_iter: int = 1000, column: str = "label"
    ) -> None:
        self.reg = None if reg is None else positive("reg", reg)
        self.max_iter = whole("max_iter", max_iter, 1)
        self.column = column

    @property
    def columns(self) -> dict[str, tuple[ValueType, ...]]:
        """The column that it predicts."""
        return {self.column: ("categorical",)}

    def __call__(self, train: Frozen, test: Frozen) -> dict[str, float]:
        """``{"linear/top1": fraction}``."""
        x, known = with_classes(train, self.column)
        reg = 1e-3 * variance(x) if self.reg is None else self.reg
        fit = softmax_regression(x, known, reg=reg, max_iter=self.max_iter)
        if not fit.converged:
            logger.warning(
                "The linear probe of %r stopped at max_iter=%d steps before its minimum; a larger reg "
                "than %g, or max_iter, reaches it.",
                self.column,
                self.max_iter,
                reg,
            )
        x, ids = with_classes(test, self.column)
        return top1("linear", self.column, fit.predict(x), ids)


@dataclass(frozen=True)
class SoftmaxRegression:
    """A fitted linear classifier.

    Args:
        classes: (c,) ids, in rising order.
        weight: (c, f).
        bias: (c,).
        converged: Whether the minimum was reached in the steps allowed.
    """

    classes: Tensor
    weight: Tensor
    bias: Tensor
    converged: bool

    def predict(self, x: Tensor) -> Tensor:
        """(n,) class ids of features (n, f)."""
        return self.classes[(x @ self.weight.T + self.bias).argmax(dim=1)]


def softmax_regression(
    x: Tensor, y: Tensor, *, reg: float, max_iter: int = 1000, tol: float = 1e-6
) -> SoftmaxRegression:
    """Minimize ``mean cross-entropy + reg |W|²`` over weight W (c, f) and bias.

    Args:
        x: (n, f) float64 features.
        y: (n,) class ids, of two classes or more.
        reg: Weight of the penalty, above 0.
        max_iter: Most steps of L-BFGS.
        tol: Largest entry of the gradient, for features of unit variance, at which the minimum counts as
            reached.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    ids = y.unique()
    if len(ids) < 2:
        raise ValueError(f"a linear probe needs two classes or more, there is only {ids.tolist()}")
    # The bias is free: centered features have the same minimum, in fewer steps.  So have features in
    # another unit, with the penalty in that unit.
    center, unit = x.mean(dim=0), variance(x) ** 0.5
    # scikit-learn minimizes C * sum + |W|² / 2.  For two classes it has one row w, whose penalty is twice
    # that of our two rows w/2 and -w/2.
    scale = 2 if len(ids) > 2 else 1
    model = LogisticRegression(C=unit**2 / (scale * reg * len(x)), max_iter=max_iter, tol=tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported by ``converged``
        model.fit(((x - center) / unit).numpy(), y.numpy())
    weight, bias = torch.from_numpy(model.coef_) / unit, torch.from_numpy(model.intercept_)
    if len(ids) == 2:
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    return SoftmaxRegression(
        classes=ids,
        weight=weight,
        bias=bias - weight @ center,
        converged=bool(model.n_iter_.max() < max_iter),
    )

"""Centered kernel alignment of features and those of the network before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import checked, whole, word
from ccl_plugins.evaluators.columns import LARGEST, finite_features, fixed_part, score
from ccl_plugins.evaluators.intervals import estimate, over_rows
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric


@dataclass(eq=False, repr=False)
class CKA:
    """Similarity of frozen features to those before training, by linear centered kernel alignment (CKA).

    ``HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))`` of ``K = XXᵀ`` and ``L = YYᵀ``, of the features X
    after and Y before training. Gives ``"features/cka"``: 1 if X is Y up to a rotation, one factor
    and a shift, so 1 before training. No matrix of samples by samples is stored.

    The unbiased estimate of HSIC leaves out the similarity of a sample to itself. With more
    features than samples, the biased estimate is near 1 for any X. Its chance level, the mean over
    all orders of the samples of Y, shows this. The interval resamples the effects of single samples
    on the number, computed by leaving out one sample (jackknife).

    Split: the test split; nothing is fitted and nothing selected.

    Args:
        estimator: The estimate of HSIC, ``"unbiased"`` or ``"biased"``.
        samples: The most samples that are compared, 5 or more; of a larger split, the first of a
            fixed shuffle, the same for all runs.

    Raises:
        ValueError: If a parameter is out of its range; on use, for fewer than five samples, and for
            features that are not finite.
        UndefinedMetric: Without the features before training, which a run keeps if its own
            ``evaluate`` names ``cka``; and for features that are the same for all samples.

    Source:
        Kornblith et al., Similarity of Neural Network Representations Revisited (2019), section 3; Song
        et al., Feature Selection via Dependence Maximization (2012), eq. (5), for the unbiased estimate,
        used for CKA by Nguyen et al., Do Wide and Deep Networks Learn the Same Things? (2021),
        there as a mean over batches. Written without access to the papers.
    """

    reads_original = True

    estimator: Literal["unbiased", "biased"] = word("unbiased", "biased")
    samples: int = checked(whole, least=5, default=10000)

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``features/cka``."""
        x, y = finite_features(test), test.original
        if y is None:
            raise UndefinedMetric(
                "there are no features before training: a run keeps those of its test split if its own"
                " evaluate names cka"
            )
        if len(x) < 5 or len(y) != len(x):
            raise ValueError(
                f"cka needs five samples or more, each with its features before and after training; there"
                f" are {len(y)} before and {len(x)} after"
            )
        rows = fixed_part(len(x), self.samples)
        n, x, y = len(x), _centered(x[rows]), _centered(y[rows])
        unbiased = self.estimator == "unbiased"
        both, own_x, own_y = (hsic(a, b, unbiased) for a, b in ((x, y), (x, x), (y, y)))
        if not (own_x > 0).all() or not (own_y > 0).all():
            raise UndefinedMetric("the features are the same for all samples, or for all but one")
        cka = (both / (own_x * own_y).sqrt()).clamp_max(1)
        # The change of the number as a sample counts once more, up to a constant.
        effect = -(cka[1:] - cka[1:].mean())
        with over_rows(rows, n):
            numbers = estimate(len(x), lambda counts: cka[0] + counts @ effect)
        if numbers["interval"]:
            low, high = numbers["interval"]
            numbers["interval"] = low, min(high, 1.0)
        chance = 0.0
        if not unbiased:
            traces = x.square().sum() * y.square().sum() / (len(x) - 1)
            chance = (traces / ((x.T @ x).norm() * (y.T @ y).norm())).item()
        words = (
            "the similarity of the features of the test samples to those before training, at most 1"
        )
        return [score("features/cka", None, numbers, words, chance)]


def _centered(x: Tensor) -> Tensor:
    """Features (n, f) in float64, centered, divided by their largest absolute value."""
    x = x.double() - x.double().mean(0)
    return x / x.abs().max().clamp_min(1 / LARGEST)


def hsic(x: Tensor, y: Tensor, unbiased: bool) -> Tensor:
    """(n + 1,) HSIC of linear kernels of x (n, f) and y (n, g): of all samples, then without each one."""
    n, one = len(x), x.new_zeros(1)
    # Of K = xxᵀ and L = yyᵀ, both without their diagonals if unbiased: K1, L1, (K∘L)1, KL1 and LK1.
    square_x, square_y = x.square().sum(1), y.square().sum(1)
    out_x, out_y = (square_x, square_y) if unbiased else (0 * square_x, 0 * square_y)
    own_x, own_y = square_x - out_x, square_y - out_y
    rows_x, rows_y = x @ x.sum(0) - out_x, y @ y.sum(0) - out_y
    shared = ((x @ (x.T @ y)) * y).sum(1) - out_x * out_y
    x_of_y = x @ (x.T @ rows_y) - out_x * rows_y
    y_of_x = y @ (y.T @ rows_x) - out_y * rows_x
    # The sums of K∘L, K, L and KL: of all, and less a sample's rows and columns.
    product = shared.sum() - torch.cat([one, 2 * shared - own_x * own_y])
    sum_x = rows_x.sum() - torch.cat([one, 2 * rows_x - own_x])
    sum_y = rows_y.sum() - torch.cat([one, 2 * rows_y - own_y])
    less = rows_x * rows_y + (y_of_x - rows_x * own_y) + (x_of_y - rows_y * own_x)
    less -= shared - own_x * own_y
    chained = (rows_x * rows_y).sum() - torch.cat([one, less])
    m = torch.full_like(product, n - 1)
    m[0] = n
    if unbiased:
        total = product + sum_x * sum_y / ((m - 1) * (m - 2)) - 2 * chained / (m - 2)
        return total / (m * (m - 3))
    return (product + sum_x * sum_y / m.square() - 2 * chained / m) / (m - 1).square()

"""A linear probe from sums over batches: least squares with a penalty chosen on the same sums.

The sums are exact for any order of batches and any number of processes, need memory that does not grow
with the number of samples, and are solved when the probe is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PENALTIES = [10.0 ** (power / 2) for power in range(-16, 9)]
"""Weights of the penalty that are compared, relative to the mean variance of the features."""

MOST_FREE = 0.9
"""The most free parameters for each sample that a penalty may leave."""


@dataclass(frozen=True)
class Moments:
    """Sums over weighted samples of features x (f,) and targets y (c,); see `moments`.

    Args:
        first: (1 + f, 1 + f + c), the sum of ``w (1, x)' (1, x, y)``.
        square: (c,), the sum of ``w y²``.
    """

    first: Tensor
    square: Tensor

    def add(self, other: Moments) -> Moments:
        """The sums over the samples of both."""
        return Moments(self.first + other.first, self.square + other.square)

    @property
    def width(self) -> int:
        """F."""
        return len(self.first) - 1

    def targets(self, columns: slice) -> Moments:
        """These sums for some of the targets."""
        f = self.width
        kept = [self.first[:, : 1 + f], self.first[:, 1 + f :][:, columns]]
        return Moments(torch.cat(kept, 1), self.square[columns])

    def covariance(self) -> Tensor:
        """(f, f) of the features."""
        n, mean, f = self.first[0, 0], self.first[0] / self.first[0, 0], self.width
        return self.first[1:, 1 : 1 + f] / n - mean[1 : 1 + f, None] * mean[1 : 1 + f]


def moments(x: Tensor, y: Tensor, weight: Tensor) -> Moments:
    """The sums over a batch, in the type of ``y``.

    Args:
        x: (n, f) features.
        y: (n, c) targets; finite, also where the weight is 0.
        weight: (n,) 1 for samples that count, else 0.
    """
    left = torch.cat([torch.ones_like(y[:, :1]), x.to(y)], 1)
    weighted = left * weight.to(y)[:, None]
    first = weighted.T @ torch.cat([left, y], 1)
    return Moments(first, (y.square() * weight.to(y)[:, None]).sum(0))


@dataclass(frozen=True)
class Linear:
    """A fitted linear function.

    Args:
        weight: (f, c).
        bias: (c,).
        penalty: The chosen one of `PENALTIES`.
    """

    weight: Tensor
    bias: Tensor
    penalty: float

    def __call__(self, x: Tensor) -> Tensor:
        """(n, c) predictions for features (n, f)."""
        return x.to(self.weight) @ self.weight + self.bias


def least_squares(found: Moments, eigen: tuple[Tensor, Tensor] | None = None) -> Linear:
    """Minimize ``mean |y - W'x - b|² + reg |W|²``, with ``reg`` chosen by generalized cross-validation.

    ``reg`` is the one of `PENALTIES`, times the mean variance of the features, with the least
    ``|residuals|² / (1 - df / n)²``, where df counts the parameters that the penalty leaves free.  No
    other sample than those in the sums is looked at.

    Args:
        found: Sums over two samples or more.
        eigen: Eigenvalues and eigenvectors of the covariance, if they are known.

    Source:
        Golub, Heath and Wahba, Generalized Cross-Validation as a Method for Choosing a Good Ridge
        Parameter (1979), equation (1.4).
    """
    n, f = found.first[0, 0], found.width
    mean = found.first[0] / n
    x_mean, y_mean = mean[1 : 1 + f], mean[1 + f :]
    cross = found.first[1:, 1 + f :] / n - x_mean[:, None] * y_mean
    spread = (found.square / n - y_mean.square()).clamp_min(0).sum()
    values, vectors = torch.linalg.eigh(found.covariance()) if eigen is None else eigen
    values = values.clamp_min(0)
    unit = values.mean().clamp_min(torch.finfo(values.dtype).tiny)
    rotated = vectors.T @ cross
    energy = rotated.square().sum(1)
    reg = unit * torch.tensor(PENALTIES, dtype=values.dtype, device=values.device)[:, None]
    kept = values + reg
    # Of the residuals: each direction explains b² (λ + 2 reg) / (λ + reg)².
    residuals = (spread - (energy * (values + 2 * reg) / kept.square()).sum(1)).clamp_min(0)
    free = 1 + (values / kept).sum(1)
    # With about as many free parameters as samples, both are 0 but for rounding.
    trusted = free < MOST_FREE * n
    score = torch.where(trusted, residuals / (1 - free / n).square(), torch.inf)
    best = int(score.argmin())
    weight = vectors @ (rotated / kept[best, :, None])
    return Linear(weight, y_mean - x_mean @ weight, PENALTIES[best])


def explained(predicted: Tensor, y: Tensor) -> Tensor | None:
    """R²: the share of the variance of y that predictions explain, averaged over columns.

    Args:
        predicted: (n, c).
        y: (n, c).

    Returns:
        None if every column of y is constant; columns that are constant are left out.
    """
    left = (y - predicted).square().sum(0)
    whole = (y - y.mean(0)).square().sum(0)
    varies = whole > torch.finfo(y.dtype).eps * y.square().sum(0)
    return (1 - left[varies] / whole[varies]).mean() if varies.any() else None

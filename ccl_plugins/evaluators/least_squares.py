"""Least squares with a penalty chosen by generalized cross-validation, from eigenvalues."""

from __future__ import annotations

import torch
from torch import Tensor

PENALTIES = [10.0 ** (power / 2) for power in range(-16, 9)]
"""Weights of the penalty that are compared, relative to the mean variance of the features."""

MOST_FREE = 0.9
"""The most free parameters per sample that a penalty may leave."""


def least_squares(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Minimize ``mean |y - xW - b|² + reg |W|²``, with ``reg`` chosen by generalized cross-validation.

    ``reg`` is the one of `PENALTIES`, times the mean variance of the features, with the least
    ``|residuals|² / (1 - df / n)²``, where df counts the parameters that the penalty leaves free.

    Args:
        x: (n, f) float64 features.
        y: (n, c) float64 targets.

    Returns:
        W (f, c) and b (c,).

    Source:
        Golub, Heath and Wahba, Generalized Cross-Validation as a Method for Choosing a Good Ridge
        Parameter (1979), equation (1.4).
    """
    n, x_mean, y_mean = len(x), x.mean(dim=0), y.mean(dim=0)
    x, y = x - x_mean, y - y_mean
    values, vectors = _directions(x)
    rotated = vectors.T @ (x.T @ y) / n
    energy = rotated.square().sum(dim=1)
    unit = (values.sum() / x.shape[1]).clamp_min(torch.finfo(values.dtype).tiny)
    reg = unit * torch.tensor(PENALTIES, dtype=values.dtype)[:, None]
    kept = values + reg
    # Of the residuals: each direction explains b² (λ + 2 reg) / (λ + reg)².
    spread = y.square().sum() / n
    residuals = (spread - (energy * (values + 2 * reg) / kept.square()).sum(dim=1)).clamp_min(0)
    free = 1 + (values / kept).sum(dim=1)
    # With about as many free parameters as samples, both are 0 but for rounding.
    score = torch.where(free < MOST_FREE * n, residuals / (1 - free / n).square(), torch.inf)
    weight = vectors @ (rotated / kept[score.argmin(), :, None])
    return weight, y_mean - x_mean @ weight


def _directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues (k,) of ``xᵀx / n`` and their vectors (f, k); with n < f, without the zeros."""
    n, f = x.shape
    if n >= f:
        values, vectors = torch.linalg.eigh(x.T @ x / n)
        return values.clamp_min(0), vectors
    values, of_rows = torch.linalg.eigh(x @ x.T / n)  # the same eigenvalues, from a smaller matrix
    some = values > values[-1] * n * torch.finfo(values.dtype).eps
    values = values[some]
    return values, x.T @ (of_rows[:, some] / (n * values).sqrt())

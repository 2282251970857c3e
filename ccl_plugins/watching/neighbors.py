"""Weighted nearest neighbors: what the samples nearest to one have in common with it."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

NEIGHBORS = 20
TEMPERATURE = 0.1


def nearest(x: Tensor, bank: Tensor, k: int = NEIGHBORS) -> tuple[Tensor, Tensor]:
    """The k rows of the bank most similar to each sample.

    Args:
        x: (n, f) features.
        bank: (N, f) features.
        k: Neighbors; all rows if there are fewer.

    Returns:
        Weights (n, k), ``exp(cosine / 0.1)`` up to a factor per sample, and rows of the bank (n, k).
    """
    cosine = functional.normalize(x, dim=1) @ functional.normalize(bank, dim=1).T
    found, rows = cosine.topk(min(k, len(bank)), dim=1)
    return ((found - found[:, :1]) / TEMPERATURE).exp(), rows


def voted(weights: Tensor, rows: Tensor, ids: Tensor, classes: int) -> Tensor:
    """(n,) the class with the largest sum of its neighbors' weights; the first of equal ones.

    Args:
        weights: (n, k).
        rows: (n, k) rows of the bank.
        ids: (N,) class ids of the bank.
        classes: Their number.

    Source:
        Wu et al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination (2018),
        section 3.4.
    """
    votes = weights.new_zeros(len(weights), classes).scatter_add_(1, ids[rows], weights)
    return votes.argmax(1)


def averaged(weights: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """(n, c) the weighted mean of the neighbors' values (N, c)."""
    near = weights / weights.sum(1, keepdim=True)
    return (near.to(values)[..., None] * values[rows]).sum(1)

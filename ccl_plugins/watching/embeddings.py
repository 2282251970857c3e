"""Numbers of a batch's embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.pairs.pairs import Pairs

SAME_ROWS = 1e-5
"""A variance of embeddings on the unit sphere that are equal but for rounding."""


@dataclass(frozen=True)
class Embeddings:
    """Numbers of the embeddings of one view.

    Args:
        spread: Variance of the rows on the unit sphere, 0 to 1.
        rank: The effective rank of their covariance, ``(Σλ)² / Σλ²``.
        nearer: How much nearer a sample's views are to each other than to other samples, 1 less the ratio
            of their mean squared distances.
        width: Their dimensions.
        apart: The squared distance of the queue's mean key from that of the batch, in parts of the variance
            of the batch's keys; 0 without a queue.
    """

    spread: float
    rank: float
    nearer: float
    width: float
    apart: float


def describe(pairs: Pairs, raw: bool) -> Tensor:
    """(5,) the numbers of `Embeddings`, on their device.

    Args:
        pairs: The pairs of a batch.
        raw: Whether the objective takes embeddings as they are; then features are looked at, if there are.
    """
    features = pairs.samples.features
    given = pairs.anchors if not raw or features is None else features
    rows = functional.normalize(given[0].float(), dim=-1)
    centered = rows - rows.mean(0)
    spread = centered.square().sum(1).mean()
    # The covariance and the Gram matrix have the same eigenvalues above 0: take the smaller.
    gram = centered.T @ centered if rows.shape[1] < len(rows) else centered @ centered.T
    rank = gram.diagonal().sum().square() / gram.square().sum().clamp_min(1e-30)
    keys = pairs.keys[-1, pairs.rows] if not raw else given[-1]
    distance = (rows - functional.normalize(keys.float(), dim=-1)).square().sum(1).mean()
    nearer = 1 - distance / (2 * spread).clamp_min(1e-30)
    width, apart = spread.new_tensor(float(rows.shape[1])), torch.zeros_like(spread)
    if pairs.queue is not None:
        valid = pairs.queue.valid.float()
        queued = (valid @ pairs.queue.of_view(0).float()) / valid.sum().clamp_min(1)
        now = pairs.keys[-1].float()
        around = (now - now.mean(0)).square().sum(1).mean().clamp_min(1e-30)
        apart = (now.mean(0) - queued).square().sum() / around * (valid.sum() > 0)
    return torch.stack([spread, rank, nearer, width, apart])

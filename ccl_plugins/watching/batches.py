"""Measurements of a run's batches: embeddings, negatives, and kernel weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.training.kernel_check import (
    SAMPLED_ROWS,
    KernelReading,
    describe_kernel,
    kernel_readings,
)


def same_label(pairs: Any, labels: Tensor) -> Tensor | None:
    """(2,) the number of negatives with their anchor's label, and of all negatives in a batch.

    None if it is unknown which samples are compared.

    Args:
        pairs: The pairs of a batch.
        labels: (N,) the class ids of the split on the device of the pairs, -1 for none.
    """
    samples, queue = pairs.samples, pairs.queue
    if samples.index is None or (queue is not None and queue.index is None):
        return None
    anchors = labels[samples.index[pairs.rows]]
    others = labels[samples.index if samples.partner is None else samples.partner]
    if pairs.draws is not None:
        others = others[pairs.draws]
        return count_same_class(anchors, others, torch.ones_like(others, dtype=torch.bool))
    if queue is not None:
        others = torch.cat([others, labels[queue.index.clamp_min(0)]])
    return count_same_class(anchors, others, pairs.counted(pairs.negative))


def count_same_class(anchors: Tensor, others: Tensor, counts: Tensor) -> Tensor:
    """(2,) the number of negatives with their anchor's class, and of all negatives.

    Only anchors and negatives with a class count.

    Args:
        anchors: (n,) class ids, -1 for none.
        others: (k,) or (n, k) class ids of the samples that anchors are compared with.
        counts: (n, k) True at the negatives.
    """
    negatives = counts & (others >= 0) & (anchors >= 0)[:, None]
    same = negatives & (others == anchors[:, None])
    return torch.stack([same.sum(), negatives.sum()])


def described_kernels(objective: Any, pairs: Any) -> dict[str, Tensor]:
    """(2,) surviving weight and effective neighbors, by the condition or conditions of each kernel."""
    return {
        reading.name: torch.stack(describe_kernel(matrix))
        for reading, _, matrix in kernel_matrices(objective, pairs)
    }


@torch.no_grad()
def kernel_matrices(
    objective: Any, pairs: Any
) -> Iterator[tuple[KernelReading, dict[str, Tensor], Tensor]]:
    """Each kernel of an objective with its conditions, their values, and the matrix (r, r) of these.

    Over the first 512 samples of the batch that have a value; none if these are fewer than two.
    """
    for reading in kernel_readings(objective):
        if not all(name in pairs.samples.condition for name in reading.names):
            continue
        values = {name: pairs.samples.condition_of(name) for name in reading.names}
        lost = torch.stack([missing_samples(z) for z in values.values()]).any(0)
        rows = (~lost).nonzero().flatten()[:SAMPLED_ROWS]
        if len(rows) > 1:
            kept = {name: z[rows] for name, z in values.items()}
            yield reading, kept, reading.matrix(kept)


SAME_ROWS = 1e-5
"""A smaller variance of embeddings on the unit sphere counts as rounding error."""


@dataclass(frozen=True)
class Embeddings:
    """Numbers of the embeddings of one view.

    Args:
        spread: Variance of the rows on the unit sphere, 0 to 1.
        rank: The effective rank of their covariance, ``(Σλ)² / Σλ²``.
        nearer: 1 minus the ratio of two mean squared distances: of a sample's views, and of
            different samples.
        width: The number of dimensions.
        apart: The squared distance of the queue's mean key from that of the batch, in parts of the variance
            of the batch's keys; 0 without a queue.
    """

    spread: float
    rank: float
    nearer: float
    width: float
    apart: float


def embedding_numbers(pairs: Pairs, raw: bool) -> Tensor:
    """(5,) the numbers of `Embeddings`, on their device.

    Args:
        pairs: The pairs of a batch.
        raw: Whether the objective takes raw embeddings; then features are measured, if there are
            any.
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

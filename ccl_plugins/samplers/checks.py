"""Checks of the condition and the batch size that the pipeline gives a sampler."""

from __future__ import annotations

from torch import Tensor


def require_batch_size(batch_size: int, size: int, samples: str = "the number of samples") -> None:
    """Refuse an empty batch, and one larger than the data set.

    Args:
        batch_size: Samples in a batch.
        size: The most it may be.
        samples: What ``size`` is the number of, for the message.

    Raises:
        ValueError: For a size out of range.
    """
    if not 1 <= batch_size <= size:
        raise ValueError(f"batch_size must be 1 to {size}, {samples}, not {batch_size}")


def require_rows(condition: Tensor, size: int) -> None:
    """Refuse a condition of another data set.

    Raises:
        ValueError: For another number of rows than samples.
    """
    if len(condition) != size:
        raise ValueError(
            f"condition must have a row for each of {size} samples, not {len(condition)}"
        )


def require_classes(condition: Tensor, sampler: str) -> None:
    """Refuse a condition whose values are not class ids.

    Raises:
        ValueError: Saying how to make class ids of them.
    """
    if condition.is_floating_point():
        raise ValueError(
            f"{sampler} needs a categorical condition, and this one holds numbers,"
            f" {tuple(condition.shape)} {condition.dtype}: make class ids of it with"
            " clusters(of=..., k=...)"
        )

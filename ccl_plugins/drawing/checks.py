"""Checks of the condition that the pipeline gives a sampler."""

from __future__ import annotations

from torch import Tensor


def require_rows(condition: Tensor, size: int) -> None:
    """Refuse a condition without exactly one row per sample."""
    if len(condition) != size:
        raise ValueError(
            f"condition must have a row for each of {size} samples, not {len(condition)}"
        )


def require_classes(condition: Tensor, size: int, sampler: str) -> None:
    """Refuse a condition whose values are not class ids, one row for each sample."""
    if condition.is_floating_point():
        raise ValueError(
            f"{sampler} needs a categorical condition, and this one holds numbers,"
            f" {tuple(condition.shape)} {condition.dtype}: make class ids of it with"
            " clusters(of=..., k=...)"
        )
    require_rows(condition, size)

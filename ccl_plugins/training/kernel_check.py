"""What a kernel makes of a condition: whether it sees any other sample at all."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.protocols import Table

SAMPLED_ROWS = 512
FAINT = 1e-3


def check_kernel(kernel: Any, table: Table, name: str) -> dict[str, float]:
    """How much of the other samples a kernel sees on a condition, on 512 rows.

    Returns:
        ``surviving_weight`` and ``effective_neighbors``, as `describe_kernel` defines them.

    Warns:
        UserWarning: Where almost nothing survives of a condition that is not class ids, so that a
            kernel-weighted loss is near 0.
    """
    size = len(table.values)
    if size < 2:
        return {}
    rows = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:SAMPLED_ROWS]
    values = table.values[rows]
    with torch.no_grad():
        surviving, neighbors = describe_kernel(kernel(values, values))
    # Few samples of many share a class, and no scale changes that.
    if surviving < FAINT and values.is_floating_point():
        scale = getattr(kernel, "scale", None)
        remedy = 'another scale, as scale="median"'
        if scale is None:
            remedy = 'a kernel of distances, as rbf with scale="median"'
        warnings.warn(
            f"{type(kernel).__name__}"
            + (f" with scale {scale!r}" if scale is not None else "")
            + f" sees almost nothing on condition {name!r}: the mean weight between two of"
            f" {len(rows)} samples is {surviving:.2g} of a sample's with itself, so the objective"
            f" hardly compares them; take {remedy}",
            stacklevel=2,
        )
    return {"surviving_weight": surviving, "effective_neighbors": neighbors}


def describe_kernel(kernel: Tensor) -> tuple[float, float]:
    """What a kernel matrix leaves of the other samples.

    Args:
        kernel: (r, r) kernel values of r samples with themselves.

    Returns:
        The surviving weight, mean off-diagonal ``|K_ij|`` over mean ``K_ii``; and the effective
        number of neighbors: the mean over rows of ``(sum w)^2 / sum w^2`` of the off-diagonal
        weights ``w = |K_ij|``, between 1 (or 0 where a row has none) and r - 1.
    """
    count = len(kernel)
    diagonal = kernel.diagonal().double()
    others = kernel.double().abs()
    others = others - torch.diag(others.diagonal())
    surviving = others.sum() / (count * (count - 1)) / diagonal.mean().clamp_min(1e-300)
    # Scaled by each row's largest weight, since squares of tiny weights underflow.
    scaled = others / others.amax(1, keepdim=True).clamp_min(1e-300)
    neighbors = scaled.sum(1).square() / scaled.square().sum(1).clamp_min(1e-300)
    return float(surviving), float(neighbors.mean())

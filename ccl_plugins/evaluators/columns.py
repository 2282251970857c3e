"""What evaluators ask of frozen features and their columns before they compute."""

from __future__ import annotations

import torch
from torch import Tensor

from ccl_plugins.protocols import Frozen


def metric_prefix(name: str, column: str) -> str:
    """``name`` for the label, ``name-column`` for another column."""
    return name if column == "label" else f"{name}-{column}"


def features(frozen: Frozen) -> Tensor:
    """(N, f) features in float64.

    Raises:
        ValueError: If they are no matrix, empty, or not finite (naming the first such row).
    """
    x = frozen.features
    if x.ndim != 2 or len(x) == 0:
        raise ValueError(f"features must be (N, f) with N > 0, not of shape {tuple(x.shape)}")
    finite = x.isfinite().all(dim=1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise ValueError(
            f"features of row {row} are not finite ({int((~finite).sum())} rows in all)"
        )
    return x.double()


def classes(frozen: Frozen, column: str) -> Tensor:
    """(N,) ids of a categorical column.

    Raises:
        ValueError: If the column is missing, has another number of rows, or is no column of ids.
    """
    values = _column(frozen, column)
    if values.is_floating_point() or values.ndim != 1:
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, a classifier needs "
            "ids (N,) of integers; use the evaluator 'regression' for numbers"
        )
    return values.long()


def numbers(frozen: Frozen, column: str) -> Tensor:
    """(N, c) values of a continuous column, in float64.

    Raises:
        ValueError: If the column is missing, has another number of rows, holds integers or a value that
            is not finite.
    """
    values = _column(frozen, column)
    if not values.is_floating_point() or values.ndim not in (1, 2):
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, a regression needs "
            "floats (N,) or (N, c); use the evaluator 'linear' for classes"
        )
    values = values.double().reshape(len(values), -1)
    finite = values.isfinite().all(dim=1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise ValueError(f"column {column!r} is not finite in row {row}")
    return values


def _column(frozen: Frozen, column: str) -> Tensor:
    if column not in frozen.metadata:
        raise ValueError(f"there is no column {column!r}; there are {sorted(frozen.metadata)}")
    values = torch.as_tensor(frozen.metadata[column])
    if len(values) != len(frozen.features):
        raise ValueError(
            f"column {column!r} has {len(values)} rows, the features have {len(frozen.features)}"
        )
    return values

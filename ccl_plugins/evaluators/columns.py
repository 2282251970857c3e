"""The samples an evaluator measures: their frozen features, and what a column says of them."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from ccl_plugins.metadata.missing import missing_rows
from ccl_plugins.protocols import Frozen

logger = logging.getLogger(__name__)


def metric_prefix(name: str, column: str) -> str:
    """``name`` for the label, ``name-column`` for another column."""
    return name if column == "label" else f"{name}-{column}"


def with_classes(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Features (n, f) in float64 and ids (n,) of the samples with a class in a categorical column.

    Raises:
        ValueError: If the column is missing, has another number of rows, is no column of ids or has a class
            for no sample; if a feature is not finite.
    """
    features, values = _features(frozen), _column(frozen, column)
    if values.is_floating_point() or values.ndim != 1:
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, a classifier needs "
            "ids (N,) of integers; use the evaluator 'regression' for numbers"
        )
    known = _known(column, missing_rows(values, "categorical"))
    return features[known], values[known].long()


def with_numbers(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Features (n, f) and values (n, c), in float64, of the samples with a value in a continuous column.

    Raises:
        ValueError: If the column is missing, has another number of rows, holds integers or an infinite
            value, or has values for no sample; if a feature is not finite.
    """
    features, values = _features(frozen), _column(frozen, column)
    if not values.is_floating_point() or values.ndim not in (1, 2):
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, a regression needs "
            "floats (N,) or (N, c); use the evaluator 'linear' for classes"
        )
    values = values.double().reshape(len(values), -1)
    infinite = values.isinf().any(dim=1)
    if infinite.any():
        raise ValueError(f"column {column!r} is infinite in row {int(infinite.nonzero()[0])}")
    known = _known(column, missing_rows(values, "continuous"))
    return features[known], values[known]


def _known(column: str, missing: Tensor) -> Tensor:
    """(N,) True at the samples that have a value; how many do not is logged."""
    if missing.all():
        raise ValueError(f"column {column!r} has a value for none of {len(missing)} samples")
    if missing.any():
        logger.warning(
            "The column %r is missing in %d of %d samples, which are not measured.",
            column,
            int(missing.sum()),
            len(missing),
        )
    return ~missing


def _features(frozen: Frozen) -> Tensor:
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


def _column(frozen: Frozen, column: str) -> Tensor:
    if column not in frozen.metadata:
        raise ValueError(f"there is no column {column!r}; there are {sorted(frozen.metadata)}")
    values = torch.as_tensor(frozen.metadata[column])
    if len(values) != len(frozen.features):
        raise ValueError(
            f"column {column!r} has {len(values)} rows, the features have {len(frozen.features)}"
        )
    return values

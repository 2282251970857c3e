"""The features and column values that evaluators read: checked, without missing samples, in float64."""

from __future__ import annotations

import logging
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.evaluators.intervals import Estimate, mean
from ccl_plugins.files.mapped import blocks
from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.values import missing_entries, missing_rows
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric, ValueType

logger = logging.getLogger(__name__)

Split = Literal["train", "test"]
"""The split whose samples are measured."""

SPLITS = get_args(Split)

SAMPLES = {"train": "training samples", "test": "test samples"}
"""What sentences call the samples of a split."""

LARGEST = 1e18
"""The largest feature: squares of larger ones do not fit into a float32."""


def named(name: str, column: str, *, main: str = "label") -> str:
    """What names of measurements begin with: ``"name"``, or ``"name-column"`` if not of the main column."""
    return name if column == main else f"{name}-{column}"


def the(column: str) -> str:
    """What sentences call a column: the label, or the others by their names."""
    return "the label" if column == "label" else column


def most_frequent(ids: Tensor, classes: int = 1) -> float:
    """The share of the most frequent class, or of so many, in class ids (n,)."""
    counts = ids.unique(return_counts=True)[1]
    return counts.topk(min(classes, len(counts))).values.sum().item() / len(ids)


def held(
    name: str, column: str | None, numbers: Estimate, sentence: str, chance: float
) -> Measurement:
    """A measurement that is the higher, the more the features hold, of a column or of pairs."""
    return Measurement(
        name, **numbers, sentence=sentence, column=column, direction="higher", chance=chance
    )


def accuracy(name: str, column: str, right: Tensor, ids: Tensor, by: str) -> Measurement:
    """The share of right predictions: ``"name/top1"``, or ``"name-column/top1"`` if not of the label.

    Args:
        name: The evaluator's.
        column: What is predicted.
        right: (n,) whether a sample is predicted right, or how often.
        ids: (n,) the class ids.
        by: What predicts, in words.
    """
    words = f"the share of the test samples whose {column} is named right by {by}"
    return held(f"{named(name, column)}/top1", column, mean(right), words, most_frequent(ids))


def top1(name: str, column: str, predicted: Tensor, ids: Tensor, by: str) -> Measurement:
    """The `accuracy` of predicted class ids (n,).

    A warning is logged if one class alone is measured: the share is defined, and tells nothing apart.
    """
    if (ids == ids[0]).all():
        logger.warning(
            "all %d measured samples have the class %d in %r: %s/top1 is how often it is predicted",
            len(ids),
            int(ids[0]),
            column,
            name,
        )
    return accuracy(name, column, predicted == ids, ids, by)


def several(column: str, values: Tensor, metric: str) -> Tensor:
    """The values of a column, (n,) or (n, c), if more than one differs.

    Raises:
        UndefinedMetric: If all are equal.
    """
    if (values == values[0]).all():
        only = values[0].tolist()
        raise UndefinedMetric(
            f"column {column!r} has the same value, {only}, in all of {len(values)} measured samples:"
            f" {metric} is undefined"
        )
    return values


def with_classes(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Features (n, f) in float64 and ids (n,) of the samples with a class in a categorical column."""
    rows, ids = rows_with_classes(frozen, column)
    return frozen.features[rows].double(), ids


def rows_with_classes(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Rows (n,) and ids (n,) of the samples with a class in a categorical column."""
    values = _column(frozen, column)
    if values.is_floating_point() or values.ndim != 1:
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, a classifier needs "
            "ids (N,) of integers; use the evaluator 'regression' for numbers"
        )
    rows = _present(column, values, "categorical")
    return rows, values[rows].long()


def with_bits(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Features (n, f) in float64 and bits (n, c) of the samples with all bits of a multi-label column."""
    rows, bits = rows_with_bits(frozen, column)
    return frozen.features[rows].double(), bits


def rows_with_bits(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Rows (n,) and bits (n, c) of the samples with all bits of a multi-label column."""
    values = _column(frozen, column)
    known = (values == 0) | (values == 1) | missing_entries(values, "multi_label")
    if values.ndim != 2 or not known.all():
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, this evaluator needs 0"
            " and 1, (N, c); use 'linear' for classes and 'regression' for numbers"
        )
    rows = _present(column, values, "multi_label")
    return rows, values[rows].bool()


def groups_at(frozen: Frozen, rows: Tensor) -> Tensor | None:
    """(n,) the groups of the samples in these rows (n,); None if samples do not belong together."""
    return None if frozen.groups is None else frozen.groups[rows]


def with_numbers(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Features (n, f) and values (n, c), in float64, of the samples with a value in a continuous column."""
    values = _column(frozen, column)
    if not values.is_floating_point() or values.ndim not in (1, 2):
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, a regression needs "
            "floats (N,) or (N, c); use the evaluator 'linear' for classes"
        )
    values = values.double().reshape(len(values), -1)
    infinite = values.isinf().any(dim=1)
    if infinite.any():
        raise ValueError(f"column {column!r} is infinite in row {int(infinite.nonzero()[0])}")
    rows = _present(column, values, "continuous")
    return frozen.features[rows].double(), values[rows]


def variance(x: Tensor) -> float:
    """The mean variance of features (n, f), or 1 for features without any."""
    return x.var(dim=0, correction=0).mean().item() or 1.0


def _column(frozen: Frozen, column: str) -> Tensor:
    """The values (N,) or (N, c) of a column, one for each of the features, which are checked."""
    values = torch.as_tensor(choose(frozen.metadata, [column], "the data set")[column])
    if len(values) != len(frozen.features):
        raise ValueError(
            f"column {column!r} has {len(values)} rows, the features have {len(frozen.features)}"
        )
    finite_features(frozen)
    return values


def finite_features(frozen: Frozen) -> Tensor:
    """The features (N, f) of all samples, checked."""
    x = frozen.features
    if x.ndim != 2 or not x.numel():
        raise ValueError(f"features must be (N, f) with N > 0, not of shape {tuple(x.shape)}")
    largest = torch.cat([x[rows].abs().amax(1) for rows in blocks(x)])  # NaN for a row with NaN
    rows = (~largest.isfinite()).nonzero()
    if len(rows):
        raise ValueError(f"features of row {int(rows[0])} are not finite ({len(rows)} rows in all)")
    if (largest > LARGEST).any():
        row = int((largest > LARGEST).nonzero()[0])
        feature = int((x[row].abs() > LARGEST).nonzero()[0])
        raise ValueError(
            f"feature {feature} of row {row} is {x[row, feature].item():.3g}: beside numbers above"
            f" {LARGEST:g} all others vanish; a network that diverged gives them, or a column that is no"
            " feature"
        )
    return x


def _present(column: str, values: Tensor, value_type: ValueType) -> Tensor:
    """(n,) the rows with a value; how many lack one is logged."""
    missing = missing_rows(values, value_type)
    if missing.all():
        raise UndefinedMetric(f"column {column!r} has a value for none of {len(missing)} samples")
    if missing.any():
        logger.warning(
            "column %r is missing in %d of %d samples, which are not measured",
            column,
            int(missing.sum()),
            len(missing),
        )
    return (~missing).nonzero().flatten()


def part(n: int, most: int) -> Tensor:
    """Rows (k,), in order: all of n, or if that is more than ``most``, so many of a fixed shuffle."""
    if n <= most:
        return torch.arange(n)
    # The stream of RandomState is the same in every version of numpy.
    return torch.from_numpy(np.sort(np.random.RandomState(0).permutation(n)[:most]))


def two_classes(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The different ids (c,), two or more, and (n,) the place of each id among them."""
    classes, index = ids.unique(return_inverse=True)
    if len(classes) < 2:
        raise UndefinedMetric(
            f"a classifier needs two classes or more, there is only {classes.tolist()}"
        )
    return classes, index

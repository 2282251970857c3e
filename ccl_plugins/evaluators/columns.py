"""The features and column values that evaluators read: checked, in float64, without missing values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.evaluators.intervals import Estimate, mean, over_groups, over_rows, warn_once
from ccl_plugins.files.mapped import blocks
from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.variable import Variable
from ccl_plugins.protocols import (
    Evaluator,
    Frozen,
    Measurement,
    UndefinedMetric,
    ValueType,
    trait,
)

logger = logging.getLogger(__name__)

Split = Literal["train", "test"]
"""The split whose samples are measured."""

SPLITS = get_args(Split)

SAMPLES = {"train": "training samples", "test": "test samples"}
"""The name of a split's samples in sentences."""

LARGEST = 1e18
"""The largest allowed feature: squares of larger numbers do not fit into a float32."""


class OfColumn:
    """An evaluator that reads one column of the metadata, named by its ``column``.

    Args of subclasses:
        column: Categorical column of the metadata that is predicted; samples without a class are left
            out, and a warning counts them.
    """

    column: str
    column_types: ClassVar[Sequence[ValueType]] = ("categorical",)
    """The value types that the column may have."""

    @property
    def columns(self) -> Mapping[str, Sequence[ValueType]]:
        """The column, with the value types that it may have."""
        return {self.column: self.column_types}


def name_prefix(name: str, column: str, *, main: str = "label") -> str:
    """The beginning of measurements' names: ``"name"``, or ``"name-column"`` if not the main column."""
    return name if column == main else f"{name}-{column}"


def in_words(column: str) -> str:
    """The name of a column in sentences: the label, or a column's own name."""
    return "the label" if column == "label" else column


def most_frequent(ids: Tensor, classes: int = 1) -> float:
    """The share of the most frequent class, or of the given number of classes, in class ids (n,)."""
    counts = ids.unique(return_counts=True)[1]
    return counts.topk(min(classes, len(counts))).values.sum().item() / len(ids)


def score(
    name: str, column: str | None, numbers: Estimate, sentence: str, chance: float
) -> Measurement:
    """A measurement of a column or of pairs, which is higher if the features hold more."""
    return Measurement(
        name, **numbers, sentence=sentence, column=column, direction="higher", chance=chance
    )


def accuracy(name: str, column: str, right: Tensor, ids: Tensor, by: str) -> Measurement:
    """The share of right predictions: ``"name/top1"``, or ``"name-column/top1"`` if not of the label.

    Args:
        name: The evaluator's name.
        column: The predicted column.
        right: (n,) whether, or how often, a sample is predicted right.
        ids: (n,) the class ids.
        by: The predictor, in words.
    """
    words = f"the share of the test samples whose {column} is named right by {by}"
    return score(
        f"{name_prefix(name, column)}/top1", column, mean(right), words, most_frequent(ids)
    )


def top1(name: str, column: str, predicted: Tensor, ids: Tensor, by: str) -> Measurement:
    """The `accuracy` of predicted class ids (n,).

    A warning is logged if only one class is measured: the share is defined, but says nothing.
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


def differing_values(column: str, values: Tensor, metric: str) -> Tensor:
    """The values of a column, (n,) or (n, c), if they are not all equal.

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
    rows = _present(column, Variable(values, "categorical"))
    return rows, values[rows].long()


def of_classes(frozen: Frozen, columns: Iterable[str]) -> Frozen:
    """The samples with a class in each of several categorical columns."""
    for column in columns:
        frozen = frozen.take(rows_with_classes(frozen, column)[0])
    return frozen


def with_bits(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Features (n, f) in float64 and bits (n, c) of the samples with all bits of a multi-label column."""
    rows, bits = rows_with_bits(frozen, column)
    return frozen.features[rows].double(), bits


def rows_with_bits(frozen: Frozen, column: str) -> tuple[Tensor, Tensor]:
    """Rows (n,) and bits (n, c) of the samples with all bits of a multi-label column."""
    values = _column(frozen, column)
    bits = Variable(values, "multi_label")
    known = (values == 0) | (values == 1) | bits.missing_entries
    if values.ndim != 2 or not known.all():
        raise ValueError(
            f"column {column!r} is {values.dtype} of shape {tuple(values.shape)}, this evaluator needs 0"
            " and 1, (N, c); use 'linear' for classes and 'regression' for numbers"
        )
    rows = _present(column, bits)
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
        raise ValueError(
            f"column {column!r} is infinite in row {int(infinite.nonzero()[0])} (from 0)"
        )
    rows = _present(column, Variable(values, "continuous"))
    return frozen.features[rows].double(), values[rows]


Call = TypeVar("Call", bound=Callable[[Any, Frozen, Frozen], list[Measurement]])
"""The call of an evaluator."""


def of_known_classes(attribute: str) -> Callable[[Call], Call]:
    """Decorate the call of an evaluator that can only predict the classes of training.

    Only test samples whose class occurs in the training split are measured. A warning, and the
    measurements' sentences, count the samples and classes that are left out.

    Args:
        attribute: The evaluator's attribute that names the column; with a column of numbers, all
            samples are measured.

    Raises:
        UndefinedMetric: On use, if training has none of the classes.
    """

    def decorate(call: Call) -> Call:
        @wraps(call)
        def measured(self: Any, train: Frozen, test: Frozen) -> list[Measurement]:
            column = getattr(self, attribute)
            if trait(self, "split") == "train":
                return call(self, train, test)
            rows, left_out = _known_classes(train, test, column)
            if not left_out:
                return call(self, train, test)
            warn_once(f"column {column!r}: {left_out}")
            with over_rows(rows, len(test.features)):
                given = call(self, train, test.take(rows))
            return [replace(each, sentence=f"{each.sentence}; {left_out}") for each in given]

        return cast("Call", measured)

    return decorate


def of_present_samples(call: Call) -> Call:
    """Decorate the call of an evaluator, so that it gets only samples with a value in all its ``columns``.

    The number of samples that are left out, with NaN or -1 in a column, is logged.

    Raises:
        UndefinedMetric: On use, if no sample of a split has a value in all.
    """

    @wraps(call)
    def measured(self: Any, train: Frozen, test: Frozen) -> list[Measurement]:
        known, seen = _with_values(self, train), _with_values(self, test)
        if known is None or seen is None:
            where = SAMPLES["train" if known is None else "test"]
            columns = ", ".join(map(repr, trait(self, "columns")))
            raise UndefinedMetric(f"none of the {where} has a value in {columns}")
        return call(self, known, seen)

    return cast("Call", measured)


def _known_classes(train: Frozen, test: Frozen, column: str) -> tuple[Tensor, str]:
    """The rows (k,) of the test samples whose class occurs in training, and a text about the others."""
    known, ids = (torch.as_tensor(each.metadata.get(column, ())) for each in (train, test))
    every = torch.arange(len(test.features))
    sound = len(known) == len(train.features) and len(ids) == len(every) > 0
    # The evaluator itself refuses values that are no classes, and a single class.
    if not sound or any(each.is_floating_point() or each.ndim != 1 for each in (known, ids)):
        return every, ""
    present = Variable(known, "categorical").present.unique() if len(known) else known
    missing = Variable(ids, "categorical").missing
    lacking = ~torch.isin(ids.long(), present.long()) & ~missing
    if len(present) < 2 or not (count := int(lacking.sum())):
        return every, ""
    many = len(ids[lacking].unique())
    classes = "one class" if many == 1 else f"{many} classes"
    if (lacking | missing).all():
        raise UndefinedMetric(
            f"training has no sample of the {classes} that {count} measured samples have in column "
            f"{column!r}, so a probe fitted to it cannot predict them: use the evaluator 'held', "
            "which is fitted within the measured samples"
        )
    left_out = f"{count} of {len(ids)} samples are left out, of {classes} that training lacks"
    return every[~lacking], left_out


def measured_by(evaluator: Evaluator, train: Frozen, test: Frozen) -> Sequence[Measurement]:
    """An evaluator's measurements of two splits; words get the class ids of the training split.

    Intervals are over the groups of the samples that it reads.
    """
    known, seen = (
        each if each.groups is None else _with_values(evaluator, each) or each
        for each in (train, numbered_as(train, test))
    )
    measured_of = known if trait(evaluator, "split") == "train" else seen
    with over_groups(measured_of.groups):
        return evaluator(known, seen)


def _with_values(evaluator: Evaluator, frozen: Frozen) -> Frozen | None:
    """The samples with a value in all columns that an evaluator reads; None if there are none."""
    missing = {
        name: Variable(
            values, "continuous" if values.is_floating_point() else "categorical"
        ).missing
        for name in trait(evaluator, "columns")
        if (values := frozen.metadata.get(name)) is not None
    }
    lacking = torch.zeros(len(frozen.features), dtype=torch.bool)
    for rows in missing.values():
        lacking |= rows
    if not lacking.any():
        return frozen
    if lacking.all():
        return None
    for name, rows in missing.items():
        _say_missing(name, rows)
    return frozen.take((~lacking).nonzero().flatten())


def numbered_as(train: Frozen, test: Frozen) -> Frozen:
    """Samples whose words have the class ids of a training split.

    Another data set, or a split whose columns are words, numbers its own words, and the ids may
    differ. Words that the training split lacks get the numbers after its own.
    """
    metadata, vocabulary = dict(test.metadata), dict(test.vocabulary)
    for name, words in test.vocabulary.items():
        values = metadata[name]
        if words == train.vocabulary.get(name, words) or values.is_floating_point():
            continue
        known = [*train.vocabulary[name]]
        vocabulary[name] = known + [word for word in words if word not in known]
        places = {word: i for i, word in enumerate(vocabulary[name])}
        ids = torch.tensor([places[word] for word in words], dtype=torch.long)
        metadata[name] = values.masked_scatter(values >= 0, ids[values[values >= 0]])
    return replace(test, metadata=metadata, vocabulary=vocabulary)


def variance(x: Tensor) -> float:
    """The mean variance of features (n, f), or 1 for features without any."""
    return center_and_variance(x)[1]


def center_and_variance(x: Tensor) -> tuple[Tensor, float]:
    """The mean (f,) of features (n, f) in float64, and their `variance`; many are read in blocks."""
    center, squares = torch.zeros(2, x.shape[1], dtype=torch.float64, device=x.device)
    for rows in blocks(x):
        center += x[rows].double().sum(dim=0) / len(x)
    for rows in blocks(x):
        squares += (x[rows] - center).square().sum(dim=0) / len(x)
    return center, squares.mean().item() or 1.0


def _column(frozen: Frozen, column: str) -> Tensor:
    """The values (N,) or (N, c) of a column, one for each of the features, which are checked."""
    values = torch.as_tensor(choose(frozen.metadata, [column], "the data set")[column])
    if len(values) != len(frozen.features):
        raise ValueError(
            f"column {column!r} has {len(values)} rows, but the features have "
            f"{len(frozen.features)}"
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
        raise ValueError(
            f"features of row {int(rows[0])} (from 0) are not finite ({len(rows)} rows in all)"
        )
    if (largest > LARGEST).any():
        row = int((largest > LARGEST).nonzero()[0])
        feature = int((x[row].abs() > LARGEST).nonzero()[0])
        raise ValueError(
            f"feature {feature} of row {row} (from 0) is {x[row, feature].item():.3g}: numbers "
            f"above {LARGEST:g} hide all others; they come from a network that diverged, or from a "
            "column that is not a feature"
        )
    return x


def _present(column: str, variable: Variable) -> Tensor:
    """(n,) the rows with a value; the number of rows without one is logged."""
    missing = variable.missing
    if missing.all():
        raise UndefinedMetric(f"column {column!r} has no value for any of {len(missing)} samples")
    _say_missing(column, missing)
    return (~missing).nonzero().flatten()


def _say_missing(column: str, missing: Tensor) -> None:
    """Log the number of samples (n,) without a value in a column, if there are any."""
    if missing.any():
        logger.warning(
            "column %r is missing in %d of %d samples, which are not measured",
            column,
            int(missing.sum()),
            len(missing),
        )


def fixed_part(n: int, most: int) -> Tensor:
    """Rows (k,), in order: all n rows, or if n is more than ``most``, the first of a fixed shuffle."""
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

"""A metadata column of the data set as conditioning variable."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.columns import variable_of
from ccl_plugins.metadata.variable import Variable, check_policy
from ccl_plugins.protocols import VALUE_TYPES, Dataset, Embedder, Missing, Refresh, Table, ValueType

MANY = 20
"""A column with more different whole numbers than this may not hold classes."""


class Column:
    """A metadata column of the data set.

    Shape:
        N samples -> (N,) or (N, c)

    Args:
        name: The column.
        standardize: Whether to scale each entry of a continuous column to mean 0 and standard deviation 1
            over the training set; a constant entry becomes 0.
        value_type: What the column holds; None reads it from the data set's schema, which takes
            whole numbers as class ids, with a warning if there are more than 20 different ones.
        missing: What to do with samples without a value (-1, NaN, an empty word): ``"error"``,
            ``"own"`` (a positive of its own views only), ``"ignore"`` (left out of the objectives that
            read this condition) or ``"drop"`` (left out of training).
        dataset: The data set component whose schema is read; supplied by the pipeline.

    Raises:
        ValueError: For a column that the data set does not have, another value type, and class ids to
            standardize.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "label", "value_type": "categorical"}
    refresh: Refresh = "never"

    def __init__(
        self,
        name: str,
        standardize: bool = False,
        value_type: ValueType | None = None,
        missing: Missing = "error",
        *,
        dataset: Dataset | None = None,
    ) -> None:
        given = value_type is not None
        if value_type is None:
            if dataset is None:
                raise ValueError(
                    f"without a data set, the value type of column {name!r} is unknown: give "
                    f"value_type=, one of {', '.join(map(repr, VALUE_TYPES))}"
                )
            value_type = choose(dataset.schema(), [name], "the data set")[name]
        one_of("value_type", value_type, VALUE_TYPES)
        if standardize and value_type != "continuous":
            raise ValueError(
                f"column {name!r} is {value_type}; only a continuous one is standardized"
            )
        self._chosen = given
        self.name = self.column = name
        self.standardize = standardize
        self.value_type: ValueType = value_type
        # Class ids that are read as numbers, such as whole ages: -1 is a missing value.
        taken = "" if dataset is None else dataset.schema().get(name)
        self._ids_as_numbers = taken == "categorical" and value_type == "continuous"
        self.missing = check_policy(missing, value_type)

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Tensor:
        """The column's values on the training split."""
        values = variable_of(split, self.name).values
        if self._ids_as_numbers:
            values = Variable(values, "categorical").as_numbers().float()
        if not self._chosen:
            self._warn_of_numbers(values, getattr(split, "vocabulary", {}))
        if not self.standardize:
            return values
        from sklearn.preprocessing import StandardScaler

        rows = values.double().reshape(len(values), -1).numpy()
        return torch.from_numpy(StandardScaler().fit_transform(rows)).float().reshape(values.shape)

    def _warn_of_numbers(self, values: Tensor, vocabulary: Mapping[str, Any]) -> None:
        """Warn of whole numbers that are taken as class ids but may be numbers, such as ages."""
        if values.is_floating_point() or values.ndim != 1 or self.name in ("label", *vocabulary):
            return
        count = len(values[values >= 0].unique())
        if count > MANY:
            warnings.warn(
                f"column {self.name!r} has {count} different whole numbers, which are taken as class ids"
                ' without an order: set value_type = "continuous" of the condition if they are'
                ' numbers, "categorical" if they are classes',
                stacklevel=3,
            )

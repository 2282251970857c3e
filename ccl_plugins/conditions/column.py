"""Any metadata column of the data set as conditioning variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ccl_plugins.files.tables import choose
from ccl_plugins.metadata.columns import tensor_columns
from ccl_plugins.metadata.missing import Missing, check_policy, missing_entries
from ccl_plugins.protocols import Dataset, Life, Measure, Table


class Column:
    """A metadata column of the data set.

    Shape:
        N samples -> (N,) or (N, c)

    Args:
        name: The column.
        standardize: Whether to scale each entry of a continuous column to mean 0 and standard deviation 1
            over the training set; a constant entry becomes 0.
        measure: What the column holds; None reads it from the data set's schema.
        missing: What to do with samples without a value (-1, NaN, an empty word): ``"error"``,
            ``"own"`` (a positive of its own views only) or ``"drop"`` (left out of training).
        dataset: The data set component whose schema is read; supplied by the pipeline.

    Raises:
        ValueError: For a column that the data set does not have, or standardising class ids.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "label", "measure": "categorical"}
    life: Life = "static"

    def __init__(
        self,
        name: str,
        standardize: bool = False,
        measure: Measure | None = None,
        missing: Missing = "error",
        *,
        dataset: Dataset | None = None,
    ) -> None:
        if measure is None:
            if dataset is None:
                raise ValueError(
                    f"what column {name!r} holds is not known without a data set: give"
                    " measure='categorical', 'multi_label' or 'continuous'"
                )
            measure = choose(dataset.schema(), [name], "the data set")[name]
        if standardize and measure != "continuous":
            raise ValueError(f"column {name!r} is {measure}; only a continuous one is standardised")
        self.name = name
        self.standardize = standardize
        self._measure: Measure = measure
        self.missing = check_policy(missing, measure)

    @property
    def measure(self) -> Measure:
        """What the column holds."""
        return self._measure

    def fit(self, dataset: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The column's values on the training split."""
        values = tensor_columns(choose(dataset.metadata, [self.name], "the data set"))[self.name]
        if not self.standardize:
            return values
        values = values.double()  # in which the mean of equal numbers is that number
        there = (~missing_entries(values, "continuous")).sum(0)
        centered = values - values.nanmean(0)
        deviation = (centered.square().nansum(0) / there).sqrt()
        return (centered / torch.where(deviation > 0, deviation, 1)).float()

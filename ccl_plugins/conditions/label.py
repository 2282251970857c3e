"""The class label as conditioning variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ccl_plugins.metadata.columns import tensor_columns
from ccl_plugins.metadata.values import check_policy
from ccl_plugins.protocols import Missing, Refresh, Table, ValueType


class Label:
    """The class label of each sample, the data set's column ``label``.

    With it, objectives such as SupCon are supervised.

    Shape:
        N samples -> (N,) class ids

    Args:
        missing: What to do with samples without a label (-1): ``"error"``, ``"own"`` (a positive of its
            own views only) or ``"drop"`` (left out of training).
    """

    refresh: Refresh = "never"
    value_type: ValueType = "categorical"

    def __init__(self, missing: Missing = "error") -> None:
        self.missing = check_policy(missing, self.value_type)

    def fit(self, split: Any, embed: Callable[[], Tensor], previous: Table | None) -> Tensor:
        """The column ``label`` of the training split."""
        return tensor_columns({"label": split.metadata["label"]})["label"]

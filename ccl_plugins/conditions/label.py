"""The class label as conditioning variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ccl_plugins.conditions.column import Column
from ccl_plugins.protocols import Missing


class Label(Column):
    """The class label of each sample, the data set's column ``label``.

    With it, objectives such as SupCon are supervised.

    Shape:
        N samples -> (N,) class ids
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, missing: Missing = "error") -> None:
        super().__init__("label", value_type="categorical", missing=missing)

"""A condition that was fitted before, from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ccl_plugins.metadata import fitted
from ccl_plugins.metadata.matching import require_images, require_rows
from ccl_plugins.metadata.variable import check_policy
from ccl_plugins.protocols import Embedder, Missing, Refresh, Table, ValueType


class Saved:
    """A condition that was fitted before, from a file of `ccl_plugins.metadata.fitted.save_table`.

    Shape:
        N samples -> the saved values, with their extras

    Args:
        file: A safetensors file.
        missing: What to do with samples without a value: ``"error"``, ``"own"`` (class ids only),
            ``"ignore"`` or ``"drop"`` (see `ccl_plugins.conditions.Column`).

    Raises:
        FileNotFoundError: If there is no such file, when a pipeline is composed.
        ValueError: If it holds no condition, is damaged, or belongs to another data set.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"file": "condition.safetensors"}
    refresh: Refresh = "never"

    def __init__(self, file: str | Path, missing: Missing = "error") -> None:
        self.file = Path(file).expanduser()
        self.missing = check_policy(missing)

    @property
    def value_type(self) -> ValueType:
        """The value type in the file's metadata."""
        return fitted.read_kind(self.file)[0]

    @property
    def hierarchy(self) -> bool:
        """Whether samples have several class ids."""
        value_type, shape = fitted.read_kind(self.file)
        return value_type == "categorical" and len(shape) > 1

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Table:
        """The saved table, if it belongs to this data set."""
        table, _ = fitted.load_table(self.file)
        require_rows(len(table.values) if table.values.ndim else 1, split, str(self.file))
        require_images(self.file, split)
        return table

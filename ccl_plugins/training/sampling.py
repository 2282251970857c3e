"""The sampler of each epoch, with the values of the condition that it reads."""

from __future__ import annotations

import inspect
from typing import Any

from ccl_plugins.protocols import Sampler, Table
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.remaining import Remaining
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables


class EpochSampler:
    """Makes the sampler, and makes it anew when the table that it reads was refreshed.

    A sampler of millions of class ids takes a second to build, so it is kept as long as it is right.

    Args:
        parts: Whose sampler is made.
        tables: The fitted conditions.
        settings: Batch size and seed.
    """

    def __init__(self, parts: Parts, tables: Tables, settings: FitSettings) -> None:
        self.parts = parts
        self.tables = tables
        self.settings = settings
        self._read: Table | None = None
        self._made: Sampler | None = None

    def __call__(self) -> Sampler:
        """The sampler of the samples that are trained on.

        Raises:
            ValueError: If it reads a condition that has no table.
        """
        name = self._condition()
        table = None if name is None else self.tables[name]
        if self._made is None or table is not self._read:
            self._made, self._read = self._make(name), table
        return self._made

    def _condition(self) -> str | None:
        """The name of the condition that the sampler reads, or None."""
        name = self.parts.sampler_on
        if name is None:
            if "condition" not in inspect.signature(self.parts.sampler).parameters:
                return None
            name = "condition"
            if len(list(self.tables)) == 1:
                (name,) = self.tables
        if name not in self.tables:
            raise ValueError(
                f"the sampler reads the static or refreshed condition {name!r}; there are"
                f" {', '.join(map(repr, self.tables)) or 'none'}"
            )
        return name

    def _make(self, condition: str | None) -> Sampler:
        rows = (~self.tables.left_out()).nonzero().flatten()
        supplied: dict[str, Any] = {
            "size": len(rows),
            "batch_size": self.settings.batch_size,
            "seed": self.settings.seed,
        }
        if condition is not None:
            supplied["condition"] = self.tables.present(condition).values
        sampler = self.parts.sampler(**supplied)
        return sampler if len(rows) == self.tables.size else Remaining(sampler, rows)

"""A condition whose values belong to other samples: the control of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ccl_plugins.arguments import whole
from ccl_plugins.protocols import (
    Condition,
    Embedder,
    Missing,
    ReadsEmbeddings,
    Refresh,
    Table,
    ValueType,
    trait,
)


class Shuffled:
    """Another condition, whose values are given to the samples in a random order.

    This is a control: every value occurs as often as before, but is independent of the image. If a
    run reaches the same result with the shuffled condition, the condition is not the cause of that
    result.

    Shape: N samples -> the shape of the other condition

    Args:
        of: The condition.
        seed: The seed of the random order, 0 or more.

    Raises:
        ValueError: For a seed below 0, a condition that is computed in every step, and one of several
            variables.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"of": "label"}

    def __init__(self, of: Condition, seed: int = 0) -> None:
        name = type(of).__name__
        if of.refresh == "batch":
            raise ValueError(f"{name} is computed in every step and has no rows to shuffle")
        if isinstance(of.value_type, Mapping):
            raise ValueError(
                f"{name} gives the variables {', '.join(of.value_type)}: shuffle a condition of "
                "one variable"
            )
        self.of = of
        self.seed = whole("seed", seed, 0)
        # It declares what the other condition declares; the column too, so that both are measured alike.
        self.refresh: Refresh = of.refresh
        self.value_type: ValueType = of.value_type
        self.column: str | None = trait(of, "column")
        self.reads_embeddings: ReadsEmbeddings = trait(of, "reads_embeddings")
        self.hierarchy: bool = trait(of, "hierarchy")
        self.missing: Missing = trait(of, "missing")

    def fit(self, split: Any, embed: Embedder, previous: Table | None) -> Table:
        """The other condition's table, its rows in the random order."""
        order = torch.randperm(len(split), generator=torch.Generator().manual_seed(self.seed))
        if previous is not None:  # in the order of the samples, as the other condition gave it
            previous = Table(previous.values[order.argsort()], previous.extras)
        other: Any = self.of
        fitted = other.fit(split, embed, previous)
        table = fitted if isinstance(fitted, Table) else Table(fitted)
        return Table(table.values[order], table.extras)

"""The settings of monitors: the ``[monitor]`` table of a configuration, checked and completed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ccl_plugins.arguments import whole

STEPS = 20
"""The least number of optimizer steps between measurements by default."""


@dataclass(frozen=True)
class MonitorSettings:
    """The settings of measurements while a run trains.

    Args:
        every_epochs: Epochs between measurements. Without it and ``every_steps``, a measurement
            follows each epoch or, if epochs are short, at least 20 optimizer steps.
        every_steps: Optimizer steps between measurements, in place of ``every_epochs``.
        evaluate: The evaluators that measure the features of recent batches, like ``evaluate`` of a
            pipeline. By default they are ``linear`` and ``knn`` (for numbers ``regression``) of the
            label, of conditions with a table and of columns that the pipeline's evaluators read;
            ``held`` for columns whose classes are never both in the held-out samples and in the
            others; and ``rankme``, ``alignment``, ``uniformity`` and ``conditional_entropy``.

    Raises:
        TypeError: For a value of another type.
        ValueError: For a value out of range, and for both intervals.
    """

    every_epochs: int | None = None
    every_steps: int | None = None
    evaluate: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("every_epochs", "every_steps"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(f"monitor {name}", getattr(self, name), 1))
        if self.every_steps is not None and self.every_epochs is not None:
            raise ValueError("monitor: give every_epochs or every_steps, not both")

    def epochs(self, steps: int) -> int:
        """Epochs between measurements, for a number of steps in an epoch."""
        return self.every_epochs or -(-STEPS // steps)

    def to_dict(self) -> dict[str, Any]:
        """Every setting as plain data."""
        chosen = None if self.evaluate is None else [each.record() for each in self.evaluate]
        return {**vars(self), "evaluate": chosen}

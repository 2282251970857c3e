"""The settings of monitors: the ``[monitor]`` table of a configuration, checked and completed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ccl_plugins.arguments import whole

MEASURES = {
    "linear": "linear probe of `label`, conditions with a table, and columns that evaluators read",
    "knn": "weighted nearest neighbors, of the same",
    "rankme": "RankMe of the embeddings",
    "effective_rank": "effective rank of the features",
    "alignment": "alignment of the embeddings of two views",
    "uniformity": "uniformity of the embeddings of a view",
    "conditional_entropy": "entropy of CACR's negatives, equation (8)",
    "kernel": "weight and neighbors that the objective's kernel gives in a batch",
    "same_label_negatives": "share of negatives with their anchor's label",
    "information": "I(Z;T) and H(Z|T) of conditions of class ids Z and the label T",
}
"""What can be measured, and what each is."""

STEPS = 10
"""Optimizer steps between measurements, at least, if nothing else is said."""


@dataclass(frozen=True)
class MonitorSettings:
    """The settings of what is measured while a run trains.

    Args:
        every_epochs: Epochs between measurements.  If ``every_steps`` is not given either, it is 1, or as
            many as have 10 optimizer steps.
        every_steps: Optimizer steps between measurements, in place of ``every_epochs``.
        measures: Which measures are taken; all by default.

    Raises:
        TypeError: For a value of another type.
        ValueError: For a value out of range, for both intervals, and for an unknown measure.
    """

    every_epochs: int | None = None
    every_steps: int | None = None
    measures: Sequence[str] = tuple(MEASURES)

    def __post_init__(self) -> None:
        for name in ("every_epochs", "every_steps"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(f"monitor {name}", getattr(self, name), 1))
        if self.every_steps is not None and self.every_epochs is not None:
            raise ValueError("monitor: give every_epochs or every_steps, not both")
        if isinstance(self.measures, str) or not isinstance(self.measures, Sequence):
            raise TypeError(
                f'monitor measures must be a list as ["linear", "knn"], not {self.measures!r}'
            )
        for name in self.measures:
            if name not in MEASURES:
                raise ValueError(f"monitor has no measure {name!r}{_suggest(name)}")
        object.__setattr__(self, "measures", [n for n in MEASURES if n in self.measures])
        if not self.measures:
            raise ValueError(
                'monitor measures must name one or more; monitor = "off" measures none'
            )

    def epochs(self, steps: int) -> int:
        """Epochs between measurements, if an epoch has so many steps."""
        return self.every_epochs or -(-STEPS // steps)

    def to_dict(self) -> dict[str, Any]:
        """Every setting as plain data."""
        return asdict(self)


def _suggest(word: object) -> str:
    near = difflib.get_close_matches(str(word), MEASURES, 1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f" (there are {', '.join(MEASURES)})"

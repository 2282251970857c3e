"""The contract of schedules of the learning rate, and the length of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Length:
    """How long a run is.

    Args:
        epochs: Its epochs.
        steps_per_epoch: Optimizer steps in each.
        warmup_epochs: Epochs, or parts of one, in which the learning rate rises.
        max_steps: Optimizer steps at which it ends, if that is within the epochs; None: at their end.
    """

    epochs: int
    steps_per_epoch: int
    warmup_epochs: float = 0.0
    max_steps: int | None = None

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        steps = self.epochs * self.steps_per_epoch
        return steps if self.max_steps is None else min(steps, self.max_steps)


class Schedule(Protocol):
    """How the learning rate changes while a run trains: a pure function of the step."""

    def __call__(self, step: int, length: Length) -> float:
        """What the learning rate is multiplied by in optimizer step ``step``, from 0 on.

        It is finite and not below 0, and rises in the warm-up.
        """

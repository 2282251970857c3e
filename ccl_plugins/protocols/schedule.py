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
    """

    epochs: int
    steps_per_epoch: int
    warmup_epochs: float = 0.0


class Schedule(Protocol):
    """How the learning rate changes while a run trains: a pure function of the step."""

    def __call__(self, step: int, length: Length) -> float:
        """What the learning rate is multiplied by in optimizer step ``step``, from 0 on.

        It is finite and not below 0, and rises in the warm-up.
        """

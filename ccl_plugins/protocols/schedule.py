"""The contract of schedules of the learning rate, and the length of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Length:
    """The length of a run, in epochs, optimizer steps and batches.

    A step has batches of only one epoch, so the last step of an epoch may have fewer.

    Args:
        epochs: The epochs of the run.
        steps_per_epoch: Optimizer steps in each.
        warmup_epochs: Epochs, or parts of one, in which the learning rate rises.
        max_steps: Optimizer steps after which it ends, if within the epochs; None: at the end of
            the epochs.
        accumulate: Batches in a step.
        lacking: The number of batches by which the last step of an epoch is smaller.
    """

    epochs: int
    steps_per_epoch: int
    warmup_epochs: float = 0.0
    max_steps: int | None = None
    accumulate: int = 1
    lacking: int = 0

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        steps = self.epochs * self.steps_per_epoch
        return steps if self.max_steps is None else min(steps, self.max_steps)

    @property
    def warmup_steps(self) -> int:
        """Optimizer steps in which the learning rate rises."""
        return round(self.warmup_epochs * self.steps_per_epoch)

    @property
    def batches_per_epoch(self) -> int:
        """Batches in each epoch."""
        return self.steps_per_epoch * self.accumulate - self.lacking

    @property
    def batches(self) -> int:
        """Batches of the whole run."""
        return self.batches_after(self.steps)

    def batches_after(self, step: int) -> int:
        """The number of batches in the given number of optimizer steps."""
        epoch, rest = divmod(step, self.steps_per_epoch)
        return epoch * self.batches_per_epoch + rest * self.accumulate

    def steps_after(self, batches: int) -> int:
        """The number of optimizer steps after the given number of batches."""
        epoch, rest = divmod(batches, self.batches_per_epoch)
        return epoch * self.steps_per_epoch + rest // self.accumulate

    def batches_of_step(self, step: int) -> int:
        """The batches of an optimizer step, from 0 on."""
        is_last = (step + 1) % self.steps_per_epoch == 0
        return self.accumulate - self.lacking if is_last else self.accumulate


class Schedule(Protocol):
    """How the learning rate changes while a run trains: a pure function of the step."""

    def __call__(self, step: int, length: Length) -> float:
        """The factor of the learning rate in optimizer step ``step``, from 0.

        It is finite and not below 0, and rises in the warm-up.
        """

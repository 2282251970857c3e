"""The warm-up, which the schedules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ccl_plugins.arguments import below_one, checked, word
from ccl_plugins.protocols import Length


@dataclass(eq=False, repr=False)
class WarmUp:
    """The linear rise of the learning rate in the epochs of the warm-up; a base of schedules.

    Args:
        per: Whether the rate changes with every ``"step"``, or between epochs only, with every ``"epoch"``.
        start: The factor that the warm-up begins above, from 0 to below 1.

    Raises:
        ValueError: For a value out of range.
    """

    per: Literal["step", "epoch"] = word("step", "epoch")
    start: float = checked(below_one, default=0.0)

    def measured(self, step: int, length: Length) -> tuple[int, int, float]:
        """A step, the run and its warm-up, each counted in steps or, per epoch, in epochs."""
        each = length.steps_per_epoch
        if self.per == "epoch":
            return step // each, -(-length.steps // each), length.warmup_epochs
        return step, length.steps, length.warmup_steps

    def rise(self, at: int, warmup: float) -> float:
        """The factor that the warm-up allows: 1 after its end."""
        # The first step is above the start already: with a start of 0 it would change nothing.
        return min(self.start + (1 - self.start) * (at + 1) / warmup, 1.0) if warmup else 1.0

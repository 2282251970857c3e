"""A learning rate that falls at milestones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from ccl_plugins.arguments import non_negative, wholes
from ccl_plugins.protocols import Length
from ccl_plugins.schedules.warm_up import WarmUp


class Step(WarmUp):
    """The learning rate is multiplied by a factor at each milestone.

    Args:
        milestones: Rising epochs, 1 or more.
        factor: 0 or more.
        per: Whether the warm-up rises with every ``"step"``, or with every ``"epoch"``.

    Raises:
        TypeError: For a milestone that is not a whole number.
        ValueError: For a value out of range.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"milestones": [1, 2]}

    def __init__(
        self,
        milestones: Sequence[int],
        factor: float = 0.1,
        per: Literal["step", "epoch"] = "epoch",
        start: float = 0.0,
    ) -> None:
        super().__init__(per, start)
        self.factor = non_negative("factor", factor)
        self.milestones = wholes("milestones", milestones, 1)
        if not milestones:
            raise ValueError("milestones must be epochs, such as [120, 160], not []")
        if sorted({*self.milestones}) != self.milestones:
            raise ValueError(f"milestones must rise, not {self.milestones}")

    def __call__(self, step: int, length: Length) -> float:
        """The factor of the learning rate."""
        at, _, warmup = self.measured(step, length)
        passed = bisect_right(self.milestones, step // length.steps_per_epoch)
        factor: float = self.rise(at, warmup) * self.factor**passed
        return factor

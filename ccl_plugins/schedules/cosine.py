"""A learning rate that falls as a cosine."""

from __future__ import annotations

from dataclasses import dataclass

from ccl_plugins.arguments import checked, non_negative
from ccl_plugins.protocols import Length
from ccl_plugins.schedules.warm_up import WarmUp


@dataclass(eq=False, repr=False)
class Cosine(WarmUp):
    """The learning rate falls as half a cosine, from the end of the warm-up to the end of the run.

    Args:
        end: The factor at the end, 0 or more.
        overlap: Whether the cosine spans the whole run, with the warm-up as an upper limit.
        reach_end: Whether the last step (or epoch) has the factor ``end``; if False, the step after
            it would.
    """

    end: float = checked(non_negative, default=0.0)
    overlap: bool = False
    reach_end: bool = False

    def __call__(self, step: int, length: Length) -> float:
        """The factor of the learning rate."""
        at, total, warmup = self.measured(step, length)
        rise = self.rise(at, warmup)
        if self.overlap:
            return min(rise, self._fall(at, total))
        return rise if at < warmup else self._fall(at - warmup, total - warmup)

    def _fall(self, at: float, total: float) -> float:
        from lightly.utils.scheduler import cosine_schedule

        # lightly's schedule ends at the last of its steps, so it gets one more.
        return cosine_schedule(
            min(at + self.reach_end, total), total + 1, start_value=1.0, end_value=self.end
        )

"""A constant learning rate."""

from __future__ import annotations

from ccl_plugins.protocols import Length
from ccl_plugins.schedules.warm_up import WarmUp


class Constant(WarmUp):
    """The learning rate is constant after the warm-up."""

    def __call__(self, step: int, length: Length) -> float:
        """The factor of the learning rate."""
        at, _, warmup = self.measured(step, length)
        return self.rise(at, warmup)

"""Schedules that break one law each."""

from __future__ import annotations

from support.broken import law_tests

from ccl_plugins.schedules import Constant


class Sound(Constant):
    """A constant rate after the warm-up."""

    def __init__(self) -> None:
        super().__init__()


class Falling(Sound):
    """Falls below 0."""

    def __call__(self, step, length):
        return super().__call__(step, length) - step / 10


class Whole(Sound):
    """Knows no run that ends within its epochs."""

    def __call__(self, step, length):
        return super().__call__(step, length) if length.max_steps is None else -1.0


class Counting(Sound):
    """Counts its calls."""

    calls = 0

    def __call__(self, step, length):
        self.calls += 1
        return super().__call__(step, length) / self.calls


class Cold(Sound):
    """Has no warm-up."""

    def __call__(self, step, length):
        return 1.0


BROKEN = {
    Sound: set(),
    Falling: {"factors_are_numbers"},
    Whole: {"factors_are_numbers"},
    Counting: {"a_factor_is_a_function_of_its_step"},
    Cold: {"the_warm_up_rises"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("schedule", BROKEN)

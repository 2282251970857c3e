"""Schedules that break one law each."""

from __future__ import annotations

import math
from bisect import bisect_right

from support.broken import law_tests

from ccl_plugins.protocols import Length
from ccl_plugins.schedules import Constant, Cosine


class Sound(Constant):
    """A constant rate after the warm-up."""

    def __init__(self) -> None:
        super().__init__()


class Falling(Sound):
    """Falls below 0."""

    def __call__(self, step, length):
        return super().__call__(step, length) - step / 10


class Percentage(Sound):
    """Is 100 where it should be 1."""

    def __call__(self, step, length):
        return 100 * super().__call__(step, length)


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


class Saw(Sound):
    """Begins its warm-up anew in each epoch."""

    def __call__(self, step, length):
        if step < length.warmup_steps:
            return (step % length.steps_per_epoch + 1) / length.steps_per_epoch
        return 1.0


class InSteps(Sound):
    """Takes the epochs of the warm-up for steps."""

    def __call__(self, step, length):
        return min((step + 1) / length.warmup_epochs, 1.0) if length.warmup_epochs else 1.0


class Half(Sound):
    """Is warm after half of the warm-up."""

    def __call__(self, step, length):
        return min(2 * (step + 1) / length.warmup_steps, 1.0) if length.warmup_steps else 1.0


class Highest(Sound):
    """Falls by a tenth after the latest step that it was asked for, in a run of more than 50."""

    latest = 0

    def __call__(self, step, length):
        self.latest = max(self.latest, step)
        factor = super().__call__(step, length)
        return factor if step == self.latest or length.steps <= 50 else 0.9 * factor


class Listed(Sound):
    """Has a list of factors, none of them after the last step."""

    def __call__(self, step, length):
        return [super(Listed, self).__call__(i, length) for i in range(length.steps)][step]


class Nothing(Sound):
    """Has nothing to say after the last step."""

    def __call__(self, step, length):
        return super().__call__(step, length) if step < length.steps else None


class Remaining(Sound):
    """Divides by the steps after the warm-up, of which there may be none."""

    def __call__(self, step, length):
        if step < length.warmup_steps:
            return (step + 1) / length.warmup_steps
        passed = (step - length.warmup_steps) / (length.steps - length.warmup_steps)
        return (1 + math.cos(math.pi * min(passed, 1))) / 2


class OneCycle(Sound):
    """Rises from a 25th, in the warm-up or in 30 % of the run, and falls to nearly 0."""

    def __call__(self, step, length):
        top = length.warmup_steps or max(round(0.3 * length.steps), 1)
        if step < top:
            return 1 / 25 + 24 / 25 * (1 - math.cos(math.pi * step / top)) / 2
        fallen = (step - top) / max(length.steps - top, 1)
        return 1e-4 + (1 + math.cos(math.pi * min(fallen, 1))) / 2


class OneCycleAlways(OneCycle):
    """Rises in 30 % of the run, whatever the warm-up."""

    def __call__(self, step, length):
        return super().__call__(step, Length(length.epochs, length.steps_per_epoch))


class Milestones(Sound):
    """Falls at milestones, the first of them in the warm-up."""

    def __call__(self, step, length):
        rise = min((step + 1) / length.warmup_steps, 1.0) if length.warmup_steps else 1.0
        return rise * 0.1 ** bisect_right([1, 2], step // length.steps_per_epoch)


class Overlapping(Cosine):
    """Falls over the whole run, which the warm-up limits."""

    def __init__(self) -> None:
        super().__init__(per="step", overlap=True)


BROKEN = {
    Sound: set(),
    OneCycle: set(),
    OneCycleAlways: set(),
    Milestones: set(),
    Overlapping: set(),
    Falling: {"factors_are_numbers", "the_warm_up_rises"},
    Percentage: {"factors_are_numbers"},
    Whole: {"factors_are_numbers"},
    Listed: {"factors_are_numbers"},
    Nothing: {"factors_are_numbers"},
    Remaining: {"factors_are_numbers"},
    Counting: {"a_factor_is_a_function_of_its_step"},
    Highest: {"a_factor_is_a_function_of_its_step"},
    Cold: {"the_warm_up_rises"},
    Saw: {"the_warm_up_rises"},
    InSteps: {"the_warm_up_rises"},
    Half: {"the_warm_up_rises"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("schedule", BROKEN)

"""The laws of schedules."""

from __future__ import annotations

import math
from typing import Any

from ccl_plugins.protocols import Length
from ccl_plugins.testing.assertions import require, require_identical
from ccl_plugins.testing.subject import Subject

LENGTHS = (
    Length(4, 5),
    Length(4, 5, 2),
    Length(4, 5, 0.5),
    Length(4, 5, 1, max_steps=7),
    Length(1, 1),
)


def factors(schedule: Any, length: Length) -> list[Any]:
    """The factor of every step of a run."""
    return [schedule(step, length) for step in range(length.steps)]


def observe(subject: Subject, schedule: Any) -> Any:
    """Its factors in runs of several lengths."""
    return [factors(schedule, length) for length in LENGTHS]


def check_factors_are_numbers(subject: Subject) -> None:
    """A factor must be a finite number, 0 or more; not all of a run's are 0."""
    schedule = subject.build()
    for length in LENGTHS:
        its_factors = factors(schedule, length)
        right = all(isinstance(each, float | int) and 0 <= each < math.inf for each in its_factors)
        require(right and any(its_factors), f"in {length} they are {its_factors}")


def check_a_factor_is_a_function_of_its_step(subject: Subject) -> None:
    """A factor must depend on settings, step and length alone: a resumed run asks for later steps only."""
    schedule = subject.build()
    for length in LENGTHS:
        forward = factors(schedule, length)
        backward = [subject.build()(step, length) for step in reversed(range(len(forward)))]
        require_identical(backward[::-1], forward, f"in {length}, from the last step to the first")
        require_identical(factors(schedule, length), forward, f"in {length}, asked again")


def check_the_warm_up_rises(subject: Subject) -> None:
    """With ``warmup_epochs`` the first factor must be below the one without."""
    schedule = subject.build()
    with_it, without = (schedule(0, Length(4, 5, warmup)) for warmup in (2, 0))
    require(
        with_it < without, f"it is {with_it} with a warm-up of 2 of 4 epochs, {without} without"
    )

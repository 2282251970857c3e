"""The laws of schedules."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from ccl_plugins.protocols import Length
from ccl_plugins.testing.assertions import require, require_identical
from ccl_plugins.testing.subject import Subject

LENGTHS = (
    Length(4, 5),
    Length(4, 5, 2),
    Length(4, 5, 0.5),
    Length(4, 5, 1, max_steps=7),
    Length(1, 1),
    Length(6, 1, 2),
    Length(2, 5, 2),  # the warm-up takes the whole run
)

LONG = Length(40, 5, 4)
"""A run whose warm-up is a tenth: a schedule that rises by itself, such as one-cycle, still rises there."""


def factors(schedule: Any, length: Length) -> list[Any]:
    """The factor of every step of a run."""
    return [schedule(step, length) for step in range(length.steps)]


def observe(subject: Subject, schedule: Any) -> Any:
    """The schedule's factors in runs of several lengths."""
    return [factors(schedule, length) for length in LENGTHS]


LARGEST = 50
"""The largest legal factor: a larger one is a percentage, or grows without end."""


def check_factors_are_numbers(subject: Subject) -> None:
    """A factor must be a number from 0 to 50, not a percentage, and not 0 throughout a run.

    A one-cycle that begins at its option's rate rises to 25 times this rate.
    Training asks for the factor after the last step, too: any number will do, since no step uses it.
    The warm-up may take the whole run.
    """
    schedule = subject.build()
    for length in LENGTHS:
        after = schedule(length.steps, length)
        report = f"in {length} the factor after the last step is {after!r}"
        require(isinstance(after, float | int), report)
        its_factors = factors(schedule, length)
        right = all(isinstance(each, float | int) and 0 <= each <= LARGEST for each in its_factors)
        require(right and any(its_factors), f"in {length} they are {its_factors}")


def check_a_factor_is_a_function_of_its_step(subject: Subject) -> None:
    """A factor must depend on settings, step and length alone: a resumed run asks for later steps only."""
    schedule = subject.build()
    for length in LENGTHS:
        forward = factors(schedule, length)
        backward = [subject.build(drawn=1)(step, length) for step in reversed(range(len(forward)))]
        require_identical(backward[::-1], forward, f"in {length}, from the last step to the first")
        require_identical(factors(schedule, length), forward, f"in {length}, asked again")
    forward = factors(schedule, LONG)
    other = subject.build(drawn=1)
    for step in torch.randperm(LONG.steps, generator=torch.Generator().manual_seed(0)).tolist():
        where = f"in {LONG}, step {step} of an object that was asked for others before"
        require_identical(other(step, LONG), forward[step], where)


def check_the_warm_up_rises(subject: Subject) -> None:
    """In the warm-up the factor must rise from its first value until the warm-up's last step.

    A schedule that falls by itself, such as a cosine over the whole run, is divided by its factors without
    a warm-up.
    """
    schedule = subject.build()
    steps = range(LONG.warmup_steps)
    with_it = [schedule(step, LONG) for step in steps]
    without = [schedule(step, replace(LONG, warmup_epochs=0)) for step in steps]
    shares = [x / y for x, y in zip(with_it, without, strict=True) if y]
    report = f"in {LONG} they are {with_it}, and without a warm-up {without}"
    require(_rises(with_it) or (len(shares) == len(steps) and _rises(shares)), report)


def _rises(numbers: list[float]) -> bool:
    """Whether numbers never fall, and are higher at the end of each epoch of the warm-up than before.

    A factor that rises once in an epoch is flat within each epoch. A rise over 4 steps or 2 epochs, in
    place of 4 epochs, ends too soon.
    """
    # Factors are products of a few numbers near 1: rounding is below 1e-12, a rise in 10 steps above 1e-3.
    falls = any(later < number - 1e-9 for number, later in pairwise(numbers))
    ends = numbers[LONG.steps_per_epoch - 1 :: LONG.steps_per_epoch]
    return not falls and all(end < later - 1e-9 for end, later in pairwise(ends))

"""The laws of samplers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.testing.laws import agree, hold, may_not
from ccl_plugins.testing.material import BATCH_SIZE, SIZE, seeded
from ccl_plugins.testing.subject import Subject
from ccl_plugins.training.sampling import rank_slice

GIVEN = f"size {SIZE} and batch_size {BATCH_SIZE}"


def epoch(sampler: Any, number: int, start: int = 0) -> list[Tensor]:
    """The batches of an epoch."""
    return list(sampler.batches(number, start))


def observe(subject: Subject, sampler: Any) -> Any:
    """Two epochs."""
    return [epoch(sampler, number) for number in (0, 1)]


def check_an_epoch_is_as_long_as_it_says(subject: Subject) -> None:
    """``len`` counts the batches, by which schedules are made."""
    sampler = subject.build()
    for number in range(2):
        found = len(epoch(sampler, number))
        law = "len(sampler) must be the number of batches of every epoch, 1 or more"
        given = f"with {GIVEN} it says {len(sampler)}, and epoch {number} has {found}"
        hold(law, found == len(sampler) >= 1, given)


def check_batches_are_indices(subject: Subject) -> None:
    """Global batches, full ones, of samples that there are."""
    sampler = subject.build()
    for batch in epoch(sampler, 0):
        shapes = ((BATCH_SIZE,), (BATCH_SIZE, 2))
        hold(
            "a batch must be a long tensor (batch_size,), or (batch_size, 2) with partners",
            isinstance(batch, Tensor)
            and batch.dtype == torch.long
            and tuple(batch.shape) in shapes,
            f"with {GIVEN} it is {batch!r}",
        )
        hold(
            "indices must be from 0 to size - 1",
            bool((batch >= 0).all() and (batch < SIZE).all()),
            f"with {GIVEN} there is a batch {batch.tolist()}",
        )


def check_an_epoch_is_a_function_of_its_number(subject: Subject) -> None:
    """Whatever was asked for before, and whatever the state of random generators."""
    sampler = subject.build()
    with seeded(1):
        first = epoch(sampler, 3)
    epoch(sampler, 0)
    next(iter(sampler.batches(1)))
    with seeded(2):
        law = (
            "batches(epoch) must depend on settings, seed and epoch alone: draw from a generator that"
            " is made of these in batches()"
        )
        agree(law, epoch(sampler, 3), first, rtol=0, atol=0)
        agree(law, epoch(subject.build(), 3), first, rtol=0, atol=0)


def check_start_skips_what_came_before(subject: Subject) -> None:
    """A run stopped in the middle of an epoch goes on with what it would have seen."""
    sampler = subject.build()
    whole = epoch(sampler, 1)
    for start in (1, len(whole) - 1, len(whole)):
        law = f"batches(epoch, start) must be those of the epoch from batch start on (start = {start})"
        agree(law, epoch(sampler, 1, start), whole[start:], rtol=0, atol=0)


def check_epochs_and_seeds_differ(subject: Subject) -> None:
    """Another epoch, or another seed, has another order."""
    drawn = {
        "epochs 0 and 1": [epoch(subject.build(), number) for number in (0, 1)],
        "seeds 0 and 1": [epoch(subject.build(seed=seed), 0) for seed in (0, 1)],
    }
    for what, orders in drawn.items():
        for one, other in pairwise(orders):
            same = len(one) == len(other) and all(map(torch.equal, one, other))
            hold("another epoch or seed must give another order", not same, f"{what} are the same")


def check_ranks_share_no_sample(subject: Subject) -> None:
    """A process's part of a batch holds none of another's anchors."""
    sampler = subject.build()
    for batch in epoch(sampler, 0):
        anchors = batch[:, 0] if batch.ndim == 2 else batch
        with may_not("two processes must be able to share a batch"):
            mine, theirs = (set(rank_slice(anchors, rank, 2).tolist()) for rank in range(2))
        hold(
            "no sample may come twice in a batch, so that two processes see different ones",
            not mine & theirs and len(mine | theirs) == len(anchors),
            f"a batch has the anchors {anchors.tolist()}",
        )


CHECKS: list[Callable[[Subject], None]] = [
    check_an_epoch_is_as_long_as_it_says,
    check_batches_are_indices,
    check_an_epoch_is_a_function_of_its_number,
    check_start_skips_what_came_before,
    check_epochs_and_seeds_differ,
    check_ranks_share_no_sample,
]

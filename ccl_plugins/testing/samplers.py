"""The laws of samplers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.testing.assertions import require, require_equal, require_no_error
from ccl_plugins.testing.inputs import BATCH_SIZE, SIZE, seeded
from ccl_plugins.testing.subject import Subject
from ccl_plugins.training.sampling import rank_slice

GIVEN = f"size {SIZE} and batch_size {BATCH_SIZE}"


def epoch(sampler: Any, number: int, start: int = 0) -> list[Tensor]:
    """The batches of an epoch."""
    return list(sampler.batches(number, start))


def observe(subject: Subject, sampler: Any) -> Any:
    """The batches of two epochs."""
    return [epoch(sampler, number) for number in (0, 1)]


def check_an_epoch_is_as_long_as_it_says(subject: Subject) -> None:
    """``len`` is the number of batches; schedules depend on it."""
    sampler = subject.build()
    for number in range(2):
        found = len(epoch(sampler, number))
        law = "len(sampler) must be the number of batches in every epoch, 1 or more"
        given = f"with {GIVEN} len is {len(sampler)}, and epoch {number} has {found}"
        require(law, found == len(sampler) >= 1, given)


def check_batches_are_indices(subject: Subject) -> None:
    """Batches are full, global, and made of valid sample indices."""
    sampler = subject.build()
    for batch in epoch(sampler, 0):
        shapes = ((BATCH_SIZE,), (BATCH_SIZE, 2))
        require(
            "a batch must be a long tensor (batch_size,), or (batch_size, 2) with partners",
            isinstance(batch, Tensor)
            and batch.dtype == torch.long
            and tuple(batch.shape) in shapes,
            f"with {GIVEN} it is {batch!r}",
        )
        require(
            "indices must be from 0 to size - 1",
            bool((batch >= 0).all() and (batch < SIZE).all()),
            f"with {GIVEN} a batch is {batch.tolist()}",
        )


def check_an_epoch_is_a_function_of_its_number(subject: Subject) -> None:
    """An epoch depends neither on earlier calls nor on the state of random generators."""
    sampler = subject.build()
    with seeded(1):
        first = epoch(sampler, 3)
    epoch(sampler, 0)
    next(iter(sampler.batches(1)))
    with seeded(2):
        law = (
            "batches(epoch) must depend on settings, seed and epoch alone: seed a generator with these in"
            " batches(), and draw from it"
        )
        require_equal(law, epoch(sampler, 3), first, rtol=0, atol=0)
        require_equal(law, epoch(subject.build(), 3), first, rtol=0, atol=0)


def check_start_skips_what_came_before(subject: Subject) -> None:
    """A run interrupted within an epoch resumes with the batch that comes next."""
    sampler = subject.build()
    whole = epoch(sampler, 1)
    for start in (1, len(whole) - 1, len(whole)):
        law = f"batches(epoch, start) must be the epoch's batches from number start on (start = {start})"
        require_equal(law, epoch(sampler, 1, start), whole[start:], rtol=0, atol=0)


def check_epochs_and_seeds_differ(subject: Subject) -> None:
    """Another epoch or another seed gives another order."""
    drawn = {
        "epochs 0 and 1": [epoch(subject.build(), number) for number in (0, 1)],
        "seeds 0 and 1": [epoch(subject.build(seed=seed), 0) for seed in (0, 1)],
    }
    for what, orders in drawn.items():
        for one, other in pairwise(orders):
            same = len(one) == len(other) and all(map(torch.equal, one, other))
            law = "another epoch or seed must give another order"
            require(law, not same, f"{what} give the same")


def check_ranks_share_no_sample(subject: Subject) -> None:
    """The parts of a batch on two processes have no anchor in common."""
    sampler = subject.build()
    for batch in epoch(sampler, 0):
        anchors = batch[:, 0] if batch.ndim == 2 else batch
        with require_no_error("a batch must split into parts for two processes"):
            first, second = (set(rank_slice(anchors, rank, 2).tolist()) for rank in range(2))
        require(
            "no sample may be in a batch twice, so that two processes have different ones",
            not first & second and len(first | second) == len(anchors),
            f"a batch has the anchors {anchors.tolist()}",
        )

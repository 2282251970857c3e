"""The laws of samplers."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor

import ccl_registry as engine
from ccl_plugins.testing.assertions import (
    require,
    require_identical,
    require_same_in_another_process,
)
from ccl_plugins.testing.inputs import seeded, sizes, supplied_for
from ccl_plugins.testing.subject import Subject
from ccl_plugins.training.sampling import rank_slice


def given(subject: Subject) -> str:
    """The sizes that a sampler gets, for reports."""
    size, batch_size = sizes(subject.target)
    return f"size {size} and batch_size {batch_size}"


def epoch(sampler: Any, number: int, start: int = 0) -> list[Tensor]:
    """The batches of an epoch."""
    return list(sampler.batches(number, start))


def observe(subject: Subject, sampler: Any) -> Any:
    """The batches of two epochs."""
    return [epoch(sampler, number) for number in (0, 1)]


def check_an_epoch_is_as_long_as_it_says(subject: Subject) -> None:
    """``len`` must be the number of batches in every epoch, 1 or more; schedules depend on it."""
    sampler = subject.build()
    for number in range(2):
        count = len(epoch(sampler, number))
        report = f"with {given(subject)} len is {len(sampler)}, and epoch {number} has {count}"
        require(count == len(sampler) >= 1, report)


def check_batches_are_indices(subject: Subject) -> None:
    """A batch must be a long tensor of indices from 0 to size - 1, (batch_size,) or (batch_size, 2)."""
    size, batch_size = sizes(subject.target)
    shapes = ((batch_size,), (batch_size, 2))
    for batch in epoch(subject.build(), 0):
        report = f"with {given(subject)} a batch is {batch!r}"
        require(isinstance(batch, Tensor) and batch.dtype == torch.long, report)
        require(
            tuple(batch.shape) in shapes and bool(((batch >= 0) & (batch < size)).all()), report
        )


def check_an_epoch_is_a_function_of_its_number(subject: Subject) -> None:
    """An epoch must depend on settings, seed and its number alone.

    In ``batches()``, seed a generator with these and draw from it.
    """
    sampler = subject.build()
    with seeded(1):
        first = epoch(sampler, 3)
    epoch(sampler, 0)
    next(iter(sampler.batches(1)))
    with seeded(2):
        require_identical(epoch(sampler, 3), first, "after other epochs")
        require_identical(epoch(subject.build(), 3), first, "drawn by another object")


def check_start_skips_what_came_before(subject: Subject) -> None:
    """``batches(epoch, start)`` must be the epoch's batches from number ``start`` on, for resumed runs."""
    sampler = subject.build()
    whole = epoch(sampler, 1)
    for start in (1, len(whole) - 1, len(whole)):
        require_identical(epoch(sampler, 1, start), whole[start:], f"start = {start}")


def check_epochs_and_seeds_differ(subject: Subject) -> None:
    """Another epoch or another seed must give another order, and so must both together.

    The sum of seed and epoch does not do for a generator: epoch 1 of the seed 0 would be epoch 0 of the
    seed 1, and runs with several seeds would share most of their epochs.
    """
    first, later = (epoch(subject.build(seed=0), number) for number in (0, 1))
    other = epoch(subject.build(seed=1), 0)
    require(not _same(first, later), "the epochs 0 and 1 give the same")
    require(not _same(first, other), "the seeds 0 and 1 give the same")
    require(not _same(later, other), "epoch 1 of the seed 0 is epoch 0 of the seed 1")


def _same(batches: list[Tensor], others: list[Tensor]) -> bool:
    return len(batches) == len(others) and all(map(torch.equal, batches, others))


def check_is_the_same_in_another_process(subject: Subject) -> None:
    """An epoch must be the same in every process: each rank of a run draws it, and so does a resumed run.

    ``hash()`` of a string and the order of a set of strings are others in each process.
    """
    supplied = supplied_for(subject.choice, subject.condition_values)
    require_same_in_another_process(_epoch_of, subject.choice, supplied)


def _epoch_of(choice: engine.Choice, supplied: dict[str, Any]) -> list[Tensor]:
    with seeded():
        return epoch(choice.build(supplied), 1)


def check_what_it_reads_changes_what_it_draws(subject: Subject) -> None:
    """A sampler that reads a condition must draw other batches where samples have other values."""
    if "condition" not in subject.choice.supplied:
        raise SkipTest("it reads no condition")
    values = supplied_for(subject.choice, subject.condition_values)["condition"]
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(0))
    batches, others = epoch(subject.build(), 0), epoch(subject.build(condition=values[order]), 0)
    require(not _same(batches, others), "the values in another order give the same batches")


def check_an_epoch_visits_every_sample_once(subject: Subject) -> None:
    """The anchors of an epoch must be all samples, each once, but those that fill no last batch.

    A sampler that leaves out samples or repeats them on purpose breaks this, and says why.
    """
    size, batch_size = sizes(subject.target)
    for number in range(2):
        batches = epoch(subject.build(), number)
        anchors = torch.cat([batch[:, 0] if batch.ndim == 2 else batch for batch in batches])
        repeated = len(anchors) - len(anchors.unique())
        left = size - len(anchors.unique())
        report = (
            f"with {given(subject)} {repeated} anchors come again and {left} samples do not come"
        )
        require(repeated == 0 and left < batch_size, report)


def check_in_time_every_sample_comes(subject: Subject) -> None:
    """In 20 epochs every sample must come, as an anchor or as a partner.

    One that draws with replacement, or leaves out what fills no last batch, leaves out others in each
    epoch.  A sampler that leaves out samples on purpose breaks this, and says why.
    """
    size, _ = sizes(subject.target)
    sampler = subject.build()
    drawn = torch.cat([batch.flatten() for number in range(20) for batch in epoch(sampler, number)])
    missing = sorted({*range(size)} - {*drawn.tolist()})
    report = f"with {given(subject)} {len(missing)} samples never came, such as {missing[:3]}"
    require(not missing, report)


def check_ranks_share_no_sample(subject: Subject) -> None:
    """A batch must hold no anchor twice, and split into parts for two processes."""
    for batch in epoch(subject.build(), 0):
        anchors = batch[:, 0] if batch.ndim == 2 else batch
        first, second = (set(rank_slice(anchors, rank, 2).tolist()) for rank in range(2))
        different = not first & second and len(first | second) == len(anchors)
        require(different, f"a batch has the anchors {anchors.tolist()}")

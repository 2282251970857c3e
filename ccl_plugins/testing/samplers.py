"""The laws of samplers."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import SkipTest, mock

import torch
from torch import Tensor, distributed

import ccl_registry as engine
from ccl_plugins.protocols import VALUE_TYPES, trait
from ccl_plugins.testing.assertions import (
    all_equal,
    require,
    require_identical,
    require_no_seeding,
    require_same_in_another_process,
    require_same_on_two_ranks,
    require_unchanged,
)
from ccl_plugins.testing.inputs import (
    CLASSES,
    Split,
    condition_values,
    normal,
    seeded,
    sizes,
    supplied_for,
)
from ccl_plugins.testing.subject import CONDITION, Subject
from ccl_plugins.training.sampling import rank_slice

Batches = list[Tensor]

LATER = (0, 1, 2, 5, 20, 100)
"""Epochs in which a sampler is examined: it may change in the course of a run."""

EPOCHS = 128
"""Epochs of the seed 0 among which those of other seeds are looked for."""

SEEDS = (1, 2, 10, 16, 100, 1000, 20_261_128)
"""Other seeds: neighbors of 0, seeds that a factor or a bit mask makes equal to it, and a date."""

READ = ("condition", "split")
"""What a sampler may read of the data set."""


def given(subject: Subject) -> str:
    """The sizes that a sampler gets, for reports."""
    return _said(*sizes(subject.target))


def _said(size: int, batch_size: int) -> str:
    return f"size {size} and batch_size {batch_size}"


def epoch(sampler: Any, number: int, start: int = 0) -> Batches:
    """The batches of an epoch, each as it was when it was drawn."""
    batches = sampler.batches(number, start)
    return [batch.clone() if isinstance(batch, Tensor) else batch for batch in batches]


def observe(subject: Subject, sampler: Any) -> Any:
    """The batches of two epochs."""
    return [epoch(sampler, number) for number in (0, 1)]


def _supplied(subject: Subject, of_sizes: tuple[int, int] | None = None) -> dict[str, Any]:
    return supplied_for(subject.choice, subject.condition_values, of_sizes)


def _of_sizes(subject: Subject) -> Iterator[tuple[str, Any, int, int]]:
    """The sampler with its sizes, with a size that batches divide, and with larger batches.

    It may refuse the last two.  Classes are equally large in each.
    """
    size, batch_size = sizes(subject.target)
    yield f"with {given(subject)}", subject.build(), size, batch_size
    divided = batch_size * CLASSES
    for other in ((divided * max(1, size // divided), batch_size), (size, batch_size + 2)):
        try:
            sampler = subject.build(**_supplied(subject, other))
        except (ValueError, TypeError, AssertionError):
            continue
        yield f"with {_said(*other)}", sampler, *other


def _read(subject: Subject, names: Sequence[str] = READ) -> dict[str, Any]:
    """What the sampler reads of the data set, as a pipeline supplies it."""
    supplied = _supplied(subject)
    read = {name: supplied[name] for name in names if name in subject.choice.supplied}
    if not read:
        raise SkipTest("it reads no condition")
    return read


def _rows(given: Any, rows: Tensor) -> Any:
    return Split(rows, len(given)) if isinstance(given, Split) else given[rows]


def _shuffled(size: int) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(0))


def _rare(given: Any) -> Tensor:
    """Rows of three classes: one has a single row, another a twelfth of the rows, and a third the rest."""
    values = given.metadata["label"] if isinstance(given, Split) else given
    kinds, ids = values.unique(dim=0, return_inverse=True)
    if len(kinds) < 2 or bool((values != values.round()).any()):
        raise SkipTest("its condition has no classes")
    which = torch.zeros(len(values), dtype=torch.long)
    which[: len(values) // 12 + 1] = 1
    which[0] = min(len(kinds) - 1, 2)
    samples = torch.stack([(ids == kind).long().argmax() for kind in range(3)])
    return samples[which[_shuffled(len(values))]]


def _of_rare(subject: Subject, names: Sequence[str] = READ) -> tuple[Any, bool]:
    """The sampler where a value is rare, unless it refuses rare values, and whether it warns."""
    read = {name: _rows(given, _rare(given)) for name, given in _read(subject, names).items()}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            sampler = subject.build(**read)
        except ValueError as error:
            raise SkipTest(f"it refuses classes of few samples: {error}") from error
    if not len(sampler):
        raise SkipTest("it has no batch where classes have few samples")
    return sampler, bool(said)


def check_an_epoch_is_as_long_as_it_says(subject: Subject) -> None:
    """``len`` must be the number of batches in every epoch, 1 or more; schedules depend on it."""
    for where, sampler, *_ in _of_sizes(subject):
        for number in LATER:
            count = len(epoch(sampler, number))
            report = f"{where} len is {len(sampler)}, and epoch {number} has {count}"
            require(count == len(sampler) >= 1, report)


def check_is_as_long_whatever_the_values(subject: Subject) -> None:
    """Other values of its condition must give as many batches: a condition may be refreshed.

    A sampler whose length depends on the values breaks this, and says why.
    """
    here, there = len(subject.build()), len(_of_rare(subject, READ[:1])[0])
    report = f"with {given(subject)} len is {here}, and where a value is rare it is {there}"
    require(here == there, report)


def check_batches_are_indices(subject: Subject) -> None:
    """A batch must be a long tensor of indices from 0 to size - 1, (batch_size,) or (batch_size, 2)."""
    samplers = [*_of_sizes(subject)]
    with contextlib.suppress(SkipTest):
        samplers.append(("where a value is rare", _of_rare(subject)[0], *sizes(subject.target)))
    for where, sampler, size, batch_size in samplers:
        for number in LATER:
            for batch in epoch(sampler, number):
                _require_indices(batch, size, batch_size, f"{where} a batch is {batch!r}")


def _require_indices(batch: Any, size: int, batch_size: int, report: str) -> None:
    require(isinstance(batch, Tensor) and batch.dtype == torch.long, report)
    shapes = ((batch_size,), (batch_size, 2))
    require(tuple(batch.shape) in shapes and bool(((batch >= 0) & (batch < size)).all()), report)


def check_partners_are_other_samples(subject: Subject) -> None:
    """At least some partners must be other samples than their anchors: a partner is a second sample."""
    batches = torch.cat(epoch(subject.build(), 0))
    if batches.ndim < 2:
        raise SkipTest("it draws no partners")
    report = f"with {given(subject)} the {len(batches)} anchors of an epoch are their own partners"
    require(bool((batches[:, 0] != batches[:, 1]).any()), report)


def check_an_epoch_is_a_function_of_its_number(subject: Subject) -> None:
    """An epoch must depend on settings, seed and its number alone.

    In ``batches()``, seed a generator with these and draw from it.  Several epochs may be read at once:
    keep neither the generator nor the order in the object, and yield a tensor of its own for each batch.
    """
    sampler = subject.build()
    with seeded(1):
        first = epoch(sampler, 3)
        require_identical([*sampler.batches(3)], first, "the batches, once all are drawn")
    epoch(sampler, 0)
    next(iter(sampler.batches(1)))
    with seeded(2):
        require_identical(epoch(sampler, 3), first, "after other epochs")
        in_turn = zip(sampler.batches(3), sampler.batches(4), strict=False)
        require_identical([batch for batch, _ in in_turn], first, "drawn in turn with epoch 4")
        require_identical(epoch(subject.build(), 3), first, "drawn by another object")


def check_seeds_no_global_generator(subject: Subject) -> None:
    """It must not seed Python's, numpy's or torch's global generator, from which other code draws next.

    To draw the same numbers each time, seed a generator of its own.
    """
    supplied = _supplied(subject)
    require_no_seeding(lambda: epoch(subject.choice.build(supplied), 1))


def check_changes_nothing_that_it_is_given(subject: Subject) -> None:
    """It must leave the values that it reads as they are: objectives and evaluators read them too."""
    read = _read(subject)
    held = [getattr(given, "metadata", given) for given in read.values()]
    with require_unchanged(lambda: held, " and ".join(read)):
        epoch(subject.build(**read), 1)


def check_start_skips_what_came_before(subject: Subject) -> None:
    """``batches(epoch, start)`` must be the epoch's batches from number ``start`` on, for resumed runs."""
    sampler = subject.build()
    for number in (0, 1, 20):
        whole = epoch(sampler, number)
        for start in (1, len(whole) - 1, len(whole)):
            where = f"epoch {number}, start = {start}"
            require_identical(epoch(sampler, number, start), whole[start:], where)


def check_epochs_and_seeds_differ(subject: Subject) -> None:
    """Another epoch or another seed must give another order, and so must both together.

    Do not seed a generator with the sum of seed and epoch: epoch 1 of the seed 0 would be epoch 0 of the
    seed 1, and runs with several seeds would share most of their epochs.
    """
    sampler = subject.build(seed=0)
    of_zero = [epoch(sampler, number) for number in range(EPOCHS)]
    other = epoch(subject.build(seed=1), 0)
    require(not all_equal(of_zero[0], of_zero[1]), "the epochs 0 and 1 have equal batches")
    require(not all_equal(of_zero[0], other), "the seeds 0 and 1 give equal batches")
    require(not all_equal(of_zero[1], other), "epoch 1 of the seed 0 is epoch 0 of the seed 1")
    again = _place(of_zero[:3], of_zero[1:])
    require(again < 0, f"the epochs from {again + 1} on equal those from 0 on")
    for seed in SEEDS:
        theirs = subject.build(seed=seed)
        for number in (0, 1):
            three = [epoch(theirs, number + i) for i in range(3)]
            place = _place(three, of_zero)
            report = (
                f"the epochs from {place} on of the seed 0 equal those from {number} on of {seed}"
            )
            require(place < 0, report)


def _place(three: Sequence[Batches], epochs: Sequence[Batches]) -> int:
    """Where three epochs stand among others, or -1; a single one may come again by chance."""
    for i in range(len(epochs) - 2):
        if all(map(all_equal, three, epochs[i : i + 3])):
            return i
    return -1


def check_is_the_same_in_another_process(subject: Subject) -> None:
    """An epoch must be the same in every process: each rank of a run draws it, and so does a resumed run.

    ``hash()`` of a string and the order of a set of strings differ between processes.
    """
    require_same_in_another_process(_epoch_of, subject.choice, _supplied(subject))


def _epoch_of(choice: engine.Choice, supplied: dict[str, Any]) -> Batches:
    with seeded():
        return epoch(choice.build(supplied), 1)


def check_every_rank_draws_the_whole_batches(subject: Subject) -> None:
    """Every rank must draw the same batches, for all ranks together: a run gives each rank its part."""
    require_same_on_two_ranks(
        _epoch_of_rank, subject.choice, _supplied(subject), rtol=0.0, atol=0.0
    )


def _epoch_of_rank(choice: engine.Choice, supplied: dict[str, Any]) -> Batches:
    ranked = {}
    if distributed.is_initialized():  # as torchrun sets them
        rank = str(distributed.get_rank())
        ranked = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(distributed.get_world_size())}
    with mock.patch.dict(os.environ, ranked):
        return _epoch_of(choice, supplied)


def check_takes_the_types_that_it_accepts(subject: Subject) -> None:
    """Values of each type in ``value_types`` (without it, of any type) must give whole epochs.

    Class ids may have gaps, and numbers one column or several.  A sampler may refuse a form by a
    ValueError when it is built, but not all forms of a type that it names.
    """
    if "condition" not in subject.choice.supplied:
        raise SkipTest("it reads no condition")
    if subject.condition_values is not None or hasattr(subject.target, CONDITION):
        raise SkipTest(f"its values are those of {CONDITION}")
    size, batch_size = sizes(subject.target)
    accepts = trait(subject.target, "value_types")
    names = accepts(subject.choice.params) if accepts else VALUE_TYPES
    known = len(names) > 0 and not {*names} - {*VALUE_TYPES}
    require(known, f"value_types gives {names!r}, not some of {', '.join(VALUE_TYPES)}")
    ids = condition_values(["categorical"], size)
    forms = {
        "categorical": {"class ids": ids, "class ids 3, 103 and 203": 100 * ids + 3},
        "multi_label": {"0/1 columns": condition_values(["multi_label"], size).float()},
        "continuous": {"a number": normal(size), "three numbers": normal(size, 3)},
    }
    for name in names:
        refused = []
        for form, values in forms[name].items():
            try:
                sampler = subject.build(condition=values)
            except ValueError as error:
                refused.append(f"{form}: {error}")
                continue
            for batch in epoch(sampler, 0):
                _require_indices(batch, size, batch_size, f"of {form} a batch is {batch!r}")
        all_refused = bool(accepts) and len(refused) == len(forms[name])
        require(not all_refused, f"value_types has {name!r}, and it refuses {'; '.join(refused)}")


def check_what_it_reads_changes_what_it_draws(subject: Subject) -> None:
    """A sampler that reads a condition must draw other batches where samples have other values."""
    batches = epoch(subject.build(), 0)
    for name, given in _read(subject).items():
        other = {name: _rows(given, _shuffled(len(given)))}
        same = all_equal(batches, epoch(subject.build(**other), 0))
        # It may read only how many samples have each value, and the kit's values are equally frequent.
        with contextlib.suppress(SkipTest):
            same = same and all_equal(batches, epoch(_of_rare(subject)[0], 0))
        require(not same, f"the {name} with its rows in another order gives the same batches")


def check_an_epoch_visits_every_sample_once(subject: Subject) -> None:
    """The anchors of an epoch must be all samples, each once, except a rest that fills no batch.

    A sampler that leaves out samples or repeats them on purpose breaks this, and says why.
    """
    for where, sampler, size, batch_size in _of_sizes(subject):
        for number in (0, 1):
            anchors = torch.cat([_anchors(batch) for batch in epoch(sampler, number)])
            repeated = len(anchors) - len(anchors.unique())
            left = size - len(anchors.unique())
            report = f"{where} {repeated} anchors come again and {left} samples do not come"
            require(repeated == 0 and left < batch_size, report)


def check_in_time_every_sample_comes(subject: Subject) -> None:
    """In 100 epochs every sample must be drawn, as an anchor or a partner, also one of a rare value.

    A sampler that draws with replacement, or drops a last batch that is not full, must leave out different
    samples in each epoch.  A sampler that leaves out samples on purpose breaks this, and says why; where
    values are rare, it may warn of what it leaves out.
    """
    _require_all(subject, subject.build(), f"with {given(subject)}")
    with contextlib.suppress(SkipTest):
        sampler, warned = _of_rare(subject)
        if not warned:
            _require_all(subject, sampler, "where one value has one sample and another few,")


def _require_all(subject: Subject, sampler: Any, where: str) -> None:
    size, _ = sizes(subject.target)
    missing = {*range(size)}
    for number in range(100):
        missing -= {*torch.cat(epoch(sampler, number)).flatten().tolist()}
        if not missing:
            return
    report = f"{where} {len(missing)} samples never came, such as {sorted(missing)[:3]}"
    require(not missing, report)


def check_ranks_share_no_sample(subject: Subject) -> None:
    """A batch must hold no anchor twice, and split into parts for two processes."""
    sampler = subject.build()
    for batch in [each for number in (0, 1, 20) for each in epoch(sampler, number)]:
        anchors = _anchors(batch)
        first, second = (set(rank_slice(anchors, rank, 2).tolist()) for rank in range(2))
        different = not first & second and len(first | second) == len(anchors)
        require(different, f"a batch has the anchors {anchors.tolist()}")


def _anchors(batch: Tensor) -> Tensor:
    return batch[:, 0] if batch.ndim == 2 else batch

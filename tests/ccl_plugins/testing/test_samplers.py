"""Samplers that break one law each."""

from __future__ import annotations

import numpy as np
import torch
from support.broken import law_tests

from ccl_plugins.samplers import Uniform


class Sound(Uniform):
    """All samples in random order."""

    def __init__(self, *, size: int, batch_size: int, seed: int) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)


class TooLong(Sound):
    """Declares one batch too many."""

    def __len__(self):
        return super().__len__() + 1

    def batches(self, epoch, start=0):
        return (batch for batch in super().batches(epoch, start) if len(batch) == 8)


class Short(Sound):
    """Indices of another type."""

    def batches(self, epoch, start=0):
        return (batch.int() for batch in super().batches(epoch, start))


class Global(Sound):
    """Draws from torch's generator."""

    def batches(self, epoch, start=0):
        order = torch.randperm(60)[: 8 * len(self)]
        return iter(order.split(8)[start:])


class FromTheStart(Sound):
    """Ignores `start`."""

    def batches(self, epoch, start=0):
        return super().batches(epoch)


class InOrder(Sound):
    """Always the same order."""

    def batches(self, epoch, start=0):
        return iter(torch.arange(8 * len(self)).split(8)[start:])


class Replacing(Sound):
    """Draws with replacement."""

    def batches(self, epoch, start=0):
        for number in range(start, len(self)):
            yield torch.from_numpy(
                np.random.default_rng((self.seed, epoch, number)).integers(60, size=8)
            )


class Skipping(Sound):
    """Leaves out a fifth of the samples, and eight come twice."""

    def batches(self, epoch, start=0):
        drawn = torch.Generator().manual_seed(100 * self.seed + epoch)
        order = torch.randperm(48, generator=drawn)
        return iter(torch.cat([order, order[:8]]).split(8)[start:])


class SeedPlusEpoch(Sound):
    """Adds the epoch to the seed of a generator."""

    def batches(self, epoch, start=0):
        order = torch.randperm(60, generator=torch.Generator().manual_seed(self.seed + epoch))
        return iter(order[: 8 * len(self)].split(8)[start:])


class Hashed(Sound):
    """Seeds a generator with the hash of a string."""

    def batches(self, epoch, start=0):
        drawn = torch.Generator().manual_seed(hash(f"{self.seed}, {epoch}") % 2**31)
        return iter(torch.randperm(60, generator=drawn)[: 8 * len(self)].split(8)[start:])


class WithoutTheLast(Sound):
    """Never draws the last sample, by a count that is off by one."""

    def batches(self, epoch, start=0):
        drawn = torch.Generator().manual_seed(1000 * self.seed + epoch)
        return iter(torch.randperm(59, generator=drawn)[: 8 * len(self)].split(8)[start:])


class Unread(Sound):
    """Takes a condition, and shuffles all the same."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)


class Read(Unread):
    """Batches of samples in the order of their values."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        self.order = condition.flatten().argsort(stable=True)

    def batches(self, epoch, start=0):
        return (self.order[batch] for batch in super().batches(epoch, start))


VISITS = "an_epoch_visits_every_sample_once"
BROKEN = {
    Sound: set(),
    TooLong: {"an_epoch_is_as_long_as_it_says"},
    Short: {"batches_are_indices"},
    Global: {"an_epoch_is_a_function_of_its_number", "start_skips_what_came_before"},
    FromTheStart: {"start_skips_what_came_before"},
    InOrder: {"epochs_and_seeds_differ", "in_time_every_sample_comes"},
    Replacing: {"ranks_share_no_sample", VISITS},
    Skipping: {VISITS, "in_time_every_sample_comes"},
    SeedPlusEpoch: {"epochs_and_seeds_differ"},
    Hashed: {"is_the_same_in_another_process"},
    WithoutTheLast: {"in_time_every_sample_comes"},
    Unread: {"what_it_reads_changes_what_it_draws"},
    Read: set(),
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("sampler", BROKEN)

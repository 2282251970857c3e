"""Samplers that break one law each."""

from __future__ import annotations

import os

import numpy as np
import torch
from support.broken import law_tests

from ccl_plugins.samplers import Uniform


class Sound(Uniform):
    """All samples in random order."""

    def __init__(self, *, size: int, batch_size: int, seed: int) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)

    def cut(self, order, start):
        """Batches of an order, from one on."""
        return iter(order[: self.batch_size * len(self)].split(self.batch_size)[start:])


class TooLong(Sound):
    """Declares one batch too many."""

    def __len__(self):
        return super().__len__() + 1

    def batches(self, epoch, start=0):
        return (batch for batch in super().batches(epoch, start) if len(batch) == self.batch_size)


class Short(Sound):
    """Indices of another type."""

    def batches(self, epoch, start=0):
        return (batch.int() for batch in super().batches(epoch, start))


class Global(Sound):
    """Draws from torch's generator."""

    def batches(self, epoch, start=0):
        return self.cut(torch.randperm(self.size), start)


class FromTheStart(Sound):
    """Ignores `start`."""

    def batches(self, epoch, start=0):
        return super().batches(epoch)


class InOrder(Sound):
    """Always the same order."""

    def batches(self, epoch, start=0):
        return self.cut(torch.arange(self.size), start)


class Replacing(Sound):
    """Draws with replacement."""

    def batches(self, epoch, start=0):
        drawn = self.generator(epoch)
        return self.cut(torch.randint(self.size, (self.size,), generator=drawn), start)


class Skipping(Sound):
    """Leaves out a batch of samples, and those of another come twice."""

    def batches(self, epoch, start=0):
        drawn = self.batch_size * (len(self) - 1)
        order = torch.randperm(drawn, generator=self.generator(epoch))
        return self.cut(torch.cat([order, order[: self.batch_size]]), start)


class SeedPlusEpoch(Sound):
    """Adds the epoch to the seed of a generator."""

    def generator(self, epoch):
        return torch.Generator().manual_seed(self.seed + epoch)


class Hashed(Sound):
    """Seeds a generator with the hash of a string."""

    def generator(self, epoch):
        return torch.Generator().manual_seed(hash(f"{self.seed}, {epoch}") % 2**31)


class WithoutTheLast(Sound):
    """Does not shuffle the last sample, by a count that is off by one."""

    def batches(self, epoch, start=0):
        order = torch.randperm(self.size - 1, generator=self.generator(epoch))
        return self.cut(torch.cat([order, torch.tensor([self.size - 1])]), start)


class Shrinking(Sound):
    """Leaves out half of the batches from epoch 20 on."""

    def batches(self, epoch, start=0):
        batches = [*super().batches(epoch)]
        return iter(batches[start : len(batches) if epoch < 20 else len(batches) // 2])


class OneTooFew(Sound):
    """Has a batch less than there are where batches divide the samples."""

    def __len__(self):
        return (self.size - 1) // self.batch_size


class Rounded(Sound):
    """Takes a multiple of four as batch size."""

    def __init__(self, *, size: int, batch_size: int, seed: int) -> None:
        super().__init__(size=size, batch_size=batch_size // 4 * 4, seed=seed)


class InOneTensor(Sound):
    """Yields one tensor, into which it writes each batch."""

    def batches(self, epoch, start=0):
        one = torch.empty(self.batch_size, dtype=torch.long)
        return (one.copy_(batch) for batch in super().batches(epoch, start))


class KeepsTheOrder(Sound):
    """Keeps the order of an epoch in the object."""

    def batches(self, epoch, start=0):
        self.order = torch.randperm(self.size, generator=self.generator(epoch))
        for number in range(start, len(self)):
            yield self.order[number * self.batch_size :][: self.batch_size]


class Seeding(Sound):
    """Seeds torch's generator."""

    def batches(self, epoch, start=0):
        torch.manual_seed(1_000_003 * self.seed + epoch)
        return super().batches(epoch, start)


class FewOrders(Sound):
    """Has seven orders in turn."""

    def batches(self, epoch, start=0):
        return super().batches(epoch % 7, start)


class HundredSeeds(Sound):
    """Epoch 100 of the seed 0 is epoch 0 of the seed 1."""

    def generator(self, epoch):
        return torch.Generator().manual_seed(100 * self.seed + epoch)


class SmallSeeds(Sound):
    """Takes no seed like a date."""

    def batches(self, epoch, start=0):
        drawn = np.random.RandomState(1000 * self.seed + epoch)
        return self.cut(torch.from_numpy(drawn.permutation(self.size)), start)


class OfItsRank(Sound):
    """Gives each rank its part, of which the run gives it a part."""

    def batches(self, epoch, start=0):
        ranked = torch.distributed.is_initialized()
        rank, ranks = (torch.distributed.get_rank(), 2) if ranked else (0, 1)
        return (batch[rank::ranks] for batch in super().batches(epoch, start))


class OfItsVariable(Sound):
    """Draws by the rank that torchrun names."""

    def generator(self, epoch):
        rank = int(os.environ.get("RANK", 0))
        return torch.Generator().manual_seed(1_000_003 * self.seed + epoch + 7919 * rank)


class OwnPartners(Sound):
    """Pairs of a sample and itself."""

    def batches(self, epoch, start=0):
        return (batch[:, None].expand(-1, 2) for batch in super().batches(epoch, start))


class Unread(Sound):
    """Takes a condition, and shuffles all the same."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)


class Read(Unread):
    """Batches of samples in the order of their values."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        self.by_value = condition.reshape(size, -1)[:, 0].argsort(stable=True)

    def batches(self, epoch, start=0):
        return (self.by_value[batch] for batch in super().batches(epoch, start))


class Rewriting(Read):
    """Counts classes from 1, in the tensor that objectives read."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        condition += 1


class Smallest(Read):
    """Has no more batches than the smallest class has samples."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        self.least = int(condition.unique(dim=0, return_counts=True)[1].min())

    def __len__(self):
        return min(super().__len__(), self.least)


class OfSizes(Unread):
    """Samples of small classes come first."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        _, ids, count = condition.unique(dim=0, return_inverse=True, return_counts=True)
        self.count = count[ids]

    def batches(self, epoch, start=0):
        drawn = torch.rand(self.size, generator=self.generator(epoch)) * self.count
        return self.cut(drawn.argsort(), start)


class Frequent(OfSizes):
    """Draws the first sample in the place of those of rare values."""

    def batches(self, epoch, start=0):
        first = torch.tensor(0)
        return (
            batch.where(self.count[batch] > 5, first) for batch in super().batches(epoch, start)
        )


class ShortOfRare(OfSizes):
    """Leaves out the samples of rare values in each batch."""

    def batches(self, epoch, start=0):
        return (batch[self.count[batch] > 5] for batch in super().batches(epoch, start))


class Indexing(OfSizes):
    """Takes values for places, and says nothing of their types."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        self.count = condition.bincount()[condition]


class Gapless(OfSizes):
    """Takes class ids for places in a list of the classes that there are."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)
        self.count = condition.unique(return_counts=True)[1][condition]

    @staticmethod
    def value_types(parameters):
        return ("categorical",)


class Misnamed(Read):
    """Names a value type that there is not."""

    @staticmethod
    def value_types(parameters):
        return ("number",)


class Refusing(Read):
    """Refuses numbers, which it says that it takes."""

    def __init__(self, *, size: int, batch_size: int, seed: int, condition: torch.Tensor) -> None:
        if condition.is_floating_point():
            raise ValueError("it takes class ids")
        super().__init__(size=size, batch_size=batch_size, seed=seed, condition=condition)

    @staticmethod
    def value_types(parameters):
        return ("categorical", "continuous")


VISITS = "an_epoch_visits_every_sample_once"
LENGTH = "an_epoch_is_as_long_as_it_says"
FUNCTION = "an_epoch_is_a_function_of_its_number"
DIFFER = "epochs_and_seeds_differ"
PROCESS = "is_the_same_in_another_process"
RANKS = "every_rank_draws_the_whole_batches"
IN_TIME = "in_time_every_sample_comes"
READS = "what_it_reads_changes_what_it_draws"
TYPES = "takes_the_types_that_it_accepts"
BROKEN = {
    Sound: set(),
    TooLong: {LENGTH},
    Shrinking: {LENGTH},
    OneTooFew: {VISITS},
    Short: {"batches_are_indices"},
    Rounded: {"batches_are_indices"},
    Global: {FUNCTION, "start_skips_what_came_before"},
    InOneTensor: {FUNCTION},
    KeepsTheOrder: {FUNCTION},
    Seeding: {"seeds_no_global_generator"},
    FromTheStart: {"start_skips_what_came_before"},
    InOrder: {DIFFER, IN_TIME},
    SeedPlusEpoch: {DIFFER},
    FewOrders: {DIFFER},
    HundredSeeds: {DIFFER},
    SmallSeeds: {DIFFER},
    Hashed: {PROCESS, RANKS},
    OfItsRank: {RANKS},
    OfItsVariable: {RANKS},
    OwnPartners: {"partners_are_other_samples"},
    Replacing: {"ranks_share_no_sample", VISITS},
    Skipping: {VISITS, IN_TIME},
    WithoutTheLast: {IN_TIME},
    Unread: {READS},
    Read: set(),
    OfSizes: set(),
    Rewriting: {"changes_nothing_that_it_is_given"},
    Smallest: {"is_as_long_whatever_the_values"},
    Frequent: {IN_TIME},
    ShortOfRare: {"batches_are_indices", IN_TIME, TYPES},
    Indexing: {TYPES},
    Gapless: {TYPES},
    Misnamed: {TYPES},
    Refusing: {TYPES},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("sampler", BROKEN)

"""The sampler of each epoch, with the values of the condition that it reads."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.protocols import Sampler, Table
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables


class Remaining:
    """A sampler's batches among the samples that remain.

    Args:
        sampler: Made for as many samples as there are rows.
        rows: (r,) the dataset index of each.
    """

    def __init__(self, sampler: Sampler, rows: Tensor) -> None:
        self.sampler = sampler
        self.rows = rows

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """Global batches of dataset indices."""
        for batch in self.sampler.batches(epoch, start):
            yield self.rows[batch]


SampleKey = tuple[int, ...]
"""(epoch, position in the epoch, index) of a sample; a partner's index follows where it has one."""


@dataclass
class Consumed:
    """How many global batches training has consumed: with the settings, all that a resume must know."""

    batches: int = 0


class Batches:
    """The keys of one process's part of every global batch.

    Epoch and first batch follow from the batches consumed, so that each epoch has its own order and
    a run stopped in the middle of one goes on with exactly the samples it would have seen.

    Args:
        make_sampler: Makes the sampler; called at each epoch's start, since what it samples by may
            be refreshed then.
        consumed: Counted by the training loop.
        batch_size: Samples in a global batch.
        rank: This process.
        world_size: How many processes there are.

    Raises:
        ValueError: For an epoch without batches, one whose last batch the processes cannot share, or
            one of another number of batches than the first.
    """

    def __init__(
        self,
        make_sampler: Callable[[], Sampler],
        consumed: Consumed,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        check_divisible(batch_size, world_size)
        self.make_sampler = make_sampler
        self.consumed = consumed
        self.batch_size = batch_size
        self.rank = rank
        self.world_size = world_size
        sampler = make_sampler()
        self.length = len(sampler)
        if self.length < 1:
            raise ValueError(f"the sampler gives no batch of batch_size {batch_size}")
        if world_size > 1:
            self._check_last(sampler)

    def _check_last(self, sampler: Sampler) -> None:
        """Refuse now what would fail at an epoch's end: a last batch that cannot be shared."""
        last = sum(len(batch) for batch in sampler.batches(0, self.length - 1))
        if last % self.world_size:
            samples = (self.length - 1) * self.batch_size + last
            raise ValueError(
                f"an epoch of {samples} samples in batches of batch_size {self.batch_size} ends with one"
                f" of {last}, which {self.world_size} processes cannot share: give the sampler"
                f" drop_last=True, or take a batch_size that leaves none or a multiple of"
                f" {self.world_size}"
            )

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[list[SampleKey]]:
        # Read now, not at the first batch: workers fetch ahead of what is counted as consumed.
        epoch, start = divmod(self.consumed.batches, self.length)
        return self._keys(epoch, start)

    def _keys(self, epoch: int, start: int) -> Iterator[list[SampleKey]]:
        sampler = self.make_sampler()
        if len(sampler) != self.length:
            raise ValueError(
                f"the sampler has {len(sampler)} batches in epoch {epoch} and had {self.length} before:"
                " epochs must be equally long, whatever condition is refreshed"
            )
        for number, batch in enumerate(sampler.batches(epoch, start), start):
            mine = rank_slice(batch, self.rank, self.world_size)
            first = number * self.batch_size + self.rank * len(mine)
            rows: list[Any] = mine.tolist()
            yield [
                (epoch, first + i, *(row if isinstance(row, list) else (row,)))
                for i, row in enumerate(rows)
            ]


def check_divisible(size: int, world_size: int) -> None:
    """Refuse a batch that the processes cannot share evenly.

    Raises:
        ValueError: Naming the nearest sizes that would do.
    """
    if size % world_size:
        below = size - size % world_size
        near = f"{below} or {below + world_size}" if below else f"{world_size}"
        raise ValueError(
            f"a global batch of {size} samples cannot be shared by {world_size} processes;"
            f" take a multiple of {world_size}, as {near}"
        )


def check_processes(settings: FitSettings) -> None:
    """Refuse settings that do not go with the processes there are, before anything is done.

    Raises:
        ValueError: For a batch that the processes cannot share evenly, and where a launcher started
            more of them than one and the settings say one: each would train for itself.
    """
    check_divisible(settings.batch_size, settings.processes)
    launched = {"torchrun": "WORLD_SIZE", "srun": "SLURM_STEP_NUM_TASKS"}
    if not torch.distributed.is_torchelastic_launched():
        del launched["torchrun"]
    for launcher, variable in launched.items():
        started = int(os.environ.get(variable, 1))
        if started > 1 and settings.processes == 1:
            raise ValueError(
                f"{launcher} started {started} processes, and devices=1 on nodes=1 are one: give"
                " devices (of each node) and nodes, whose product is the number of processes"
            )


def rank_slice(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """Process ``rank``'s part of a global batch: (B,) or (B, 2) -> (B / world_size,) or (.., 2).

    Raises:
        ValueError: For a batch that the processes cannot share evenly.
    """
    check_divisible(len(batch), world_size)
    part = len(batch) // world_size
    return batch[rank * part : (rank + 1) * part]


class EpochSampler:
    """Makes the sampler, and makes it anew when the table that it reads was refreshed.

    A sampler of millions of class ids takes a second to build, so it is kept as long as it is right.

    Args:
        parts: Whose sampler is made.
        tables: The fitted conditions.
        settings: Batch size and seed.
    """

    def __init__(self, parts: Parts, tables: Tables, settings: FitSettings) -> None:
        self.parts = parts
        self.tables = tables
        self.settings = settings
        self._read: Table | None = None
        self._made: Sampler | None = None

    def __call__(self) -> Sampler:
        """The sampler of the samples that are trained on.

        Raises:
            ValueError: If it reads a condition that has no table.
        """
        name = self._condition()
        table = None if name is None else self.tables[name]
        if self._made is None or table is not self._read:
            self._made, self._read = self._make(name), table
        return self._made

    def _condition(self) -> str | None:
        """The name of the condition that the sampler reads, or None."""
        name = self.parts.sampler_on
        if name is None:
            if "condition" not in inspect.signature(self.parts.sampler).parameters:
                return None
            name = "condition"
            if len(list(self.tables)) == 1:
                (name,) = self.tables
        if name not in self.tables:
            raise ValueError(
                f"the sampler reads the static or refreshed condition {name!r}; there are"
                f" {', '.join(map(repr, self.tables)) or 'none'}"
            )
        return name

    def _make(self, condition: str | None) -> Sampler:
        rows = (~self.tables.left_out()).nonzero().flatten()
        supplied: dict[str, Any] = {
            "size": len(rows),
            "batch_size": self.settings.batch_size,
            "seed": self.settings.seed,
        }
        if condition is not None:
            supplied["condition"] = self.tables.present(condition).values
        sampler = self.parts.sampler(**supplied)
        return sampler if len(rows) == self.tables.size else Remaining(sampler, rows)

"""The samples of each batch: from the sampler's global batches to this process's keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ccl_plugins.metadata.columns import columns_and_words
from ccl_plugins.protocols import Sampler, Table
from ccl_plugins.training.first_use import check_indices
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables

SampleKey = tuple[int, ...]
"""(epoch, position in the epoch, index) of a sample; its partner's index follows if it has one."""


@dataclass
class Consumed:
    """The number of global batches that training has consumed; a resume needs it and the settings."""

    batches: int = 0


class Batches:
    """The sample keys of one process's part of every global batch.

    Epoch and first batch follow from the batches consumed, so that each epoch has its own order and
    a run stopped within one continues with exactly the samples that come next. ``make_sampler`` is
    called at the start of an epoch, because the sampler's condition may have been refreshed.

    Raises:
        ValueError: For an epoch without batches, one whose last batch the processes cannot share, or
            one with another number of batches than the first.
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
        """Refuse a last batch that cannot be shared, before the epoch begins."""
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
        # Read now, not at the first batch: workers fetch batches before they are consumed.
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
            part = rank_slice(batch, self.rank, self.world_size)
            first = number * self.batch_size + self.rank * len(part)
            rows = part.view(len(part), -1).tolist()
            yield [(epoch, first + i, *indices) for i, indices in enumerate(rows)]


def rank_slice(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """Process ``rank``'s part of a global batch: (B,) or (B, 2) -> (B / world_size,) or (.., 2)."""
    check_divisible(len(batch), world_size)
    part = len(batch) // world_size
    return batch[rank * part : (rank + 1) * part]


def check_divisible(size: int, world_size: int) -> None:
    """Refuse a batch that the processes cannot share evenly."""
    if size % world_size:
        below = size - size % world_size
        near = f"{below} or {below + world_size}" if below else f"{world_size}"
        raise ValueError(
            f"a global batch of {size} samples cannot be shared by {world_size} processes;"
            f" take a multiple of {world_size}, such as {near}"
        )


def check_processes(settings: FitSettings) -> None:
    """Refuse settings that do not fit the number of processes that were started, before they wait.

    Raises:
        ValueError: For a batch that the processes cannot share evenly; if torchrun or SLURM started another
            number of processes than the settings are for.
    """
    check_divisible(settings.batch_size, settings.processes)
    given = f"devices={settings.devices} on nodes={settings.nodes} are {settings.processes}"
    launcher, started = "srun", _number("SLURM_STEP_NUM_TASKS")
    in_slurm = _in_slurm()
    if torch.distributed.is_torchelastic_launched():
        launcher, started, in_slurm = "torchrun", _number("WORLD_SIZE"), False
    # In a shell that srun began, Lightning starts the processes.
    is_launched = started > 1 or (started == 1 and (in_slurm or launcher == "torchrun"))
    if is_launched and started != settings.processes:
        raise ValueError(
            f"{launcher} started {started} processes, and {given}: give devices (of each node) and nodes,"
            " whose product is the number of processes"
        )
    if not in_slurm:
        return
    tasks, each, nodes = map(_number, ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES"))
    right = f"--nodes={settings.nodes} --ntasks-per-node={settings.devices}"
    if not started and max(tasks, settings.processes) > 1:
        raise ValueError(
            f"SLURM was asked for {tasks} tasks and srun started none of them, and {given}: begin the"
            f" command with srun, in a job with {right}"
        )
    if tasks > 1 and (each, nodes or settings.nodes) != (settings.devices, settings.nodes):
        raise ValueError(
            f"SLURM divides {tasks} tasks among nodes in another way than devices={settings.devices} on"
            f" nodes={settings.nodes}: give the job {right}, and no --ntasks"
        )


def check_batches(parts: Parts, split: Any, settings: FitSettings) -> None:
    """Check the batches of an epoch before any computation, if the sampler reads no condition.

    Raises:
        ValueError: For a batch size that the sampler cannot take; see `FitSettings.check_accumulate`.
    """
    if parts.sampler_on is None:
        read = {"split": split} if parts.sampler_reads_split else {}
        sizes = {"size": len(split), "batch_size": settings.batch_size, "seed": settings.seed}
        settings.check_accumulate(len(parts.sampler(**sizes, **read)))


def _in_slurm() -> bool:
    """Whether Lightning lets SLURM start the processes, which it does not in an interactive shell."""
    is_interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    return "SLURM_NTASKS" in os.environ and not is_interactive


def _number(variable: str) -> int:
    """The number in a variable of the environment; 0 without one."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else 0


class EpochSampler:
    """Makes the sampler, and makes it again when the table that it reads was refreshed.

    A sampler of millions of class ids takes a second to build, so it is kept while it is valid.

    Args:
        parts: Its ``sampler`` is called.
        tables: The tables of the conditions.
        settings: Batch size and seed.
        split: The training split.
    """

    def __init__(self, parts: Parts, tables: Tables, settings: FitSettings, split: Any) -> None:
        self.parts = parts
        self.tables = tables
        self.settings = settings
        self.split = split
        self._table: Table | None = None
        self._made: Sampler | None = None

    def __call__(self) -> Sampler:
        """The sampler of the samples that are trained on.

        Raises:
            KeyError: If the condition that it reads has no table.
        """
        name = self.parts.sampler_on
        table = None if name is None else self.tables[name]
        if self._made is None or table is not self._table:
            kept = (~self.tables.left_out()).nonzero().flatten()
            read: dict[str, Any] = (
                {} if name is None else {"condition": self.tables.trained_on(name).values}
            )
            size, settings = len(kept), self.settings
            if self.parts.sampler_reads_split:
                every = size == self.tables.size
                read["split"] = self.split if every else _Part(self.split, kept)
            made = self.parts.sampler(
                size=size, batch_size=settings.batch_size, seed=settings.seed, **read
            )
            self._made = _Kept(made, None if size == self.tables.size else kept, size)
            self._table = table
        return self._made


class _Part:
    """The trained samples of a split for a sampler: without their images."""

    def __init__(self, split: Any, rows: Tensor) -> None:
        columns, words = columns_and_words(split.metadata)
        self.metadata = {name: column[rows] for name, column in columns.items()}
        self.vocabulary = {**words, **getattr(split, "vocabulary", {})}
        self._size = len(rows)

    def __len__(self) -> int:
        return self._size


class _Kept:
    """A sampler whose checked indices are places in ``kept``, which has dataset indices."""

    def __init__(self, sampler: Sampler, kept: Tensor | None, size: int) -> None:
        self.sampler = sampler
        self.kept = kept
        self.size = size

    def __len__(self) -> int:
        return len(self.sampler)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        for batch in self.sampler.batches(epoch, start):
            check_indices(self.sampler, batch, self.size)
            yield batch if self.kept is None else self.kept[batch]

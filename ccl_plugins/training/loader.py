"""The loader: worker processes, and what Lightning must leave alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader

from ccl_plugins.training.batches import Batches
from ccl_plugins.training.items import Batch, Items, collate


class Loader:
    """Augmented batches of this process, one epoch per iteration.

    Not a ``DataLoader`` but an iterable around one, so that Lightning neither replaces the sampler
    nor seeds the workers; with ``state_dict`` it is resumable in Lightning's eyes.

    Args:
        items: The augmented samples.
        batches: Which keys make a batch.
        workers: Processes that load; 0 loads in this one.
        pin_memory: Whether batches are put where a GPU copies them from without waiting.
    """

    def __init__(self, items: Items, batches: Batches, workers: int, pin_memory: bool) -> None:
        self.batches = batches
        self._loader: DataLoader[Any] = DataLoader(
            items,
            batch_sampler=batches,
            num_workers=workers,
            collate_fn=collate,
            pin_memory=pin_memory,
            persistent_workers=workers > 0,
            worker_init_fn=_outlive_signals if workers else None,
            # A generator of its own: each iteration would draw a seed from the training's.
            generator=torch.Generator(),
        )

    def __len__(self) -> int:
        """Batches in a whole epoch, also where an iteration gives the rest of one."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._loader)

    def close(self) -> None:
        """End the workers now, not when the garbage collector comes to it."""
        iterator = self._loader._iterator
        if iterator is not None and hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()
        self._loader._iterator = None

    def state_dict(self) -> dict[str, int]:
        """How many batches were consumed; restored with the checkpoint, not from here."""
        return {"consumed": self.batches.consumed.batches}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Nothing: what was consumed is known before Lightning asks."""


def _outlive_signals(_: int) -> None:
    """Let a worker go on where the main process is asked to stop, since it finishes its step.

    Ctrl-C, and schedulers that end a job, signal the workers as well.
    """
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The first is ignored; a second, as the main process's last resort, ends the worker.
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def default_workers(devices: int, on_gpu: bool) -> int:
    """Workers per process: beside a GPU all cores but one, 16 at most; on a CPU half of the cores."""
    cores = _cores() // devices
    return min(16, max(0, cores - 1)) if on_gpu else min(8, cores // 2)


@contextmanager
def half_the_cores(devices: int) -> Iterator[None]:
    """Leave torch half of the cores, where training is on the CPU, and the workers the others.

    With a thread per core, torch's threads and the workers wait for each other.  The number does not
    depend on that of the workers: sums would be rounded differently.
    """
    threads, cores = torch.get_num_threads(), _cores() // devices
    torch.set_num_threads(max(1, min(threads, cores - cores // 2)))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cores() -> int:
    # Those that this process may use, which in a container are fewer than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

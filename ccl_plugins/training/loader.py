"""The loader: worker processes, and what Lightning must leave alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ccl_plugins.protocols import Views
from ccl_plugins.training.randomness import mix, seed_cpu, undisturbed
from ccl_plugins.training.sampling import Batches, SampleKey

Sample = tuple[list[Tensor], list[int]]


class Batch(NamedTuple):
    """What a training step is given.

    Args:
        views: K tensors (n, channels, height, width).
        index: (n,) dataset indices, or (n, 2) where views after the first show a partner.
    """

    views: list[Tensor]
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody asks a batch for


class Items(Dataset[Sample]):
    """The views of each sample of a split, by key.

    Each view's generators are seeded by (seed, epoch, position, view): a sample comes out the same
    in any process, however many workers there are, and the training's own generators are untouched.

    Args:
        split: A torch Dataset of ``(image, ...)``.
        views: The augmentations.  Where they have ``transforms``, a list of one callable per view,
            every view is seeded on its own; else an image's views are seeded together.
        seed: The run's seed.
    """

    def __init__(self, split: Any, views: Views, seed: int) -> None:
        self.split = split
        self.views = views
        self.seed = seed

    def __getitem__(self, key: SampleKey) -> Sample:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[SampleKey]) -> list[Sample]:
        """A whole batch, for which the global generators are set aside once."""
        with undisturbed():
            return [self._draw(*key) for key in keys]

    def _draw(self, epoch: int, position: int, *indices: int) -> Sample:
        # Reading the image is part of the first view's stream: a data set may draw as well.
        seed_cpu(mix(self.seed, epoch, position, 0))
        images = [self.split[i][0] for i in indices]
        transforms: Sequence[Callable[[Any], Tensor]] | None
        transforms = getattr(self.views, "transforms", None)
        if transforms is None:
            drawn = self.views(images[0])
            if len(images) > 1:
                drawn = [drawn[0], *self.views(images[1])[1:]]
            return drawn, list(indices)
        drawn = []
        for view, transform in enumerate(transforms):
            if view:
                seed_cpu(mix(self.seed, epoch, position, view))
            drawn.append(transform(images[min(view, len(images) - 1)]))
        return drawn, list(indices)


def collate(samples: Sequence[Sample]) -> Batch:
    """Stack samples to a batch."""
    index = torch.tensor([indices for _, indices in samples])
    views = [torch.stack(view) for view in zip(*(drawn for drawn, _ in samples), strict=True)]
    return Batch(views, index.squeeze(1) if index.shape[1] == 1 else index)


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

"""The augmented samples, each drawn from generators of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ccl_plugins.protocols import Views
from ccl_plugins.training.batches import Key
from ccl_plugins.training.randomness import mix, seed_cpu, undisturbed

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

    def __getitem__(self, key: Key) -> Sample:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[Key]) -> list[Sample]:
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

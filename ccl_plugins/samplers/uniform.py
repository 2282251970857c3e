"""The usual sampler, shuffled batches, on which the others are built."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


class Uniform:
    """Shuffled batches; every sample once per epoch.

    Args:
        drop_last: Whether to leave out an epoch's last batch if it is not full, as objectives that compare
            samples, and batch normalization, prefer.
        size: Number of samples; supplied by the pipeline.
        batch_size: Samples, or pairs, in a global batch; supplied by the pipeline.
        seed: Supplied by the pipeline.

    Args of subclasses:
        on: Name of the condition to read.

    Raises:
        ValueError: For a batch larger than the data set.
    """

    def __init__(self, drop_last: bool = True, *, size: int, batch_size: int, seed: int) -> None:
        if not 1 <= batch_size <= size:
            raise ValueError(
                f"batch_size must be 1 to {size}, the number of samples, not {batch_size}"
            )
        self.drop_last = drop_last
        self.size = size
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        full, rest = divmod(self.size, self.batch_size)
        return full if self.drop_last or not rest else full + 1

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """The epoch's batches of sample indices from batch ``start`` on."""
        # Torch's permutation is fast for millions.
        order = torch.randperm(self.size, generator=self.generator(epoch))
        for number in range(start, len(self)):
            yield order[number * self.batch_size : (number + 1) * self.batch_size]

    def generator(self, epoch: int) -> torch.Generator:
        """The random numbers of an epoch."""
        # Mixed, so that seed 0 in epoch 1 and seed 1 in epoch 0 are different orders.
        return torch.Generator().manual_seed(
            (self.seed * 0x9E3779B1 + epoch) & 0x7FFF_FFFF_FFFF_FFFF
        )

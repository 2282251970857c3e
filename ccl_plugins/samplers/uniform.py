"""The usual sampler: shuffled batches."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ccl_plugins.samplers.checks import require_batch_size
from ccl_plugins.samplers.seeding import permutation


class Uniform:
    """Shuffled batches; every sample once per epoch.

    Args:
        drop_last: Whether to leave out an epoch's last batch if it is not full, as objectives that compare
            samples, and batch normalization, prefer.
        size: Number of samples; supplied by the pipeline.
        batch_size: Samples in a global batch; supplied by the pipeline.
        seed: Supplied by the pipeline.

    Raises:
        ValueError: For a batch larger than the data set.
    """

    def __init__(self, drop_last: bool = True, *, size: int, batch_size: int, seed: int) -> None:
        require_batch_size(batch_size, size)
        self.drop_last = drop_last
        self.size = size
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        full, rest = divmod(self.size, self.batch_size)
        return full if self.drop_last or not rest else full + 1

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """The epoch's batches of sample indices from batch ``start`` on."""
        order = permutation(self.size, self.seed, epoch)
        for number in range(start, len(self)):
            yield order[number * self.batch_size : (number + 1) * self.batch_size]

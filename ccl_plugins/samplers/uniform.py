"""The usual sampler, shuffled batches, and the base of samplers that read classes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import one_of
from ccl_plugins.drawing.by_class import Groups
from ccl_plugins.numerics.condition_values import missing_samples
from ccl_plugins.protocols import ValueType

Small = Literal["error", "repeat", "leave_out"]
"""The ways to treat values that have fewer samples than a batch takes of one value."""


class Uniform:
    """Shuffled batches; every sample once per epoch.

    Args:
        drop_last: Whether to leave out an epoch's last batch if it is not full, which suits
            objectives that compare samples, and batch normalization.
        size: Number of samples; supplied by the pipeline.
        batch_size: Samples, or pairs, in a global batch; supplied by the pipeline.
        seed: The run's seed; supplied by the pipeline.

    Args of subclasses:
        on: The name of the condition to read.

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
        order = self.order(self.generator(epoch))
        for number in range(start, len(self)):
            yield order[number * self.batch_size : (number + 1) * self.batch_size]

    def order(self, generator: torch.Generator) -> Tensor:
        """The samples of an epoch, one batch after another."""
        return torch.randperm(self.size, generator=generator)  # fast for millions

    def generator(self, epoch: int) -> torch.Generator:
        """The random numbers of an epoch."""
        # Mixed, so that seed 0 in epoch 1 and seed 1 in epoch 0 are different orders.
        return torch.Generator().manual_seed(
            (self.seed * 0x9E3779B1 + epoch) & 0x7FFF_FFFF_FFFF_FFFF
        )


class OfClasses(Uniform):
    """Batches that depend on the class of each sample.

    Args:
        condition: (size,) class ids; supplied by the pipeline.

    Raises:
        ValueError: For a condition without classes, and for a batch larger than the data set.
    """

    levels: ClassVar[bool] = False
    """Whether a sample may have several class ids, (size, levels)."""

    def __init__(
        self,
        sampler: str,
        condition: Tensor,
        drop_last: bool = True,
        *,
        size: int,
        batch_size: int,
        seed: int,
    ) -> None:
        require_values(condition, size)
        if condition.is_floating_point():
            raise ValueError(
                f"{sampler} needs a categorical condition, but this one holds numbers, "
                f"{tuple(condition.shape)} {condition.dtype}: make class ids of them with "
                "clusters(of=..., k=...)"
            )
        if condition.ndim != 1 and not self.levels:
            raise ValueError(f"{sampler} needs one class per sample, not {tuple(condition.shape)}")
        super().__init__(drop_last, size=size, batch_size=batch_size, seed=seed)
        self.groups = Groups(condition)

    @staticmethod
    def value_types(parameters: Mapping[str, Any]) -> tuple[ValueType, ...]:
        """The value types that the condition may have."""
        return ("categorical",)


def of_enough(
    count: np.ndarray, least: int, small: Small, sampler: str, of: str, parameter: str
) -> np.ndarray:
    """(G,) the number of samples of each value, 0 for values that are left out because they have too few.

    Args:
        count: (G,) the number of samples of each value.
        least: The number of samples that a value should have.
        small: The treatment of values with fewer.
        sampler: The sampler's name, for messages.
        of: The source of the values, for messages.
        parameter: The sampler's parameter that sets ``least``.

    Raises:
        ValueError: With ``"error"``, for values with too few samples; with ``"leave_out"``, if no
            value has enough.
    """
    few = count < least
    if one_of("small", small, get_args(Small)) == "repeat" or not few.any():
        return count
    too_small = (
        f"{few.sum()} of {len(count)} values of {of}, {count[few].sum()} of {count.sum()} samples, have"
        f" fewer samples than {parameter} = {least}"
    )
    if small == "error":
        raise ValueError(
            f"{too_small} (the smallest {count.min()}): take {parameter} = {count.min()} at most, fewer"
            " values, small='repeat' or small='leave_out'"
        )
    if few.all():
        raise ValueError(
            f"{too_small}: with small='leave_out' no value is left; take a smaller {parameter}"
        )
    warnings.warn(f"{too_small} and are left out of training by {sampler}", stacklevel=3)
    return np.where(few, 0, count)


def require_values(condition: Tensor, size: int) -> None:
    """Refuse a condition without exactly one value per sample."""
    if not isinstance(condition, Tensor):
        raise TypeError(f"condition must be a tensor, not {type(condition).__name__}")
    if len(condition) != size:
        raise ValueError(
            f"condition must have a row for each of {size} samples, not {len(condition)}"
        )
    lost = missing_samples(condition)
    if lost.any():
        raise ValueError(
            f"{lost.sum()} of {size} samples have no value of the condition (NaN, or -1 among class ids),"
            f" the first is sample {int(lost.int().argmax())}: leave these samples out of the data set, or"
            " give each a class id of its own"
        )

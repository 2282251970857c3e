"""Batches in which all samples have the same value of the condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.samplers.uniform import OfClasses, Small, of_enough


class SameCondition(OfClasses):
    """Batches of samples with one condition value, so that negatives share the anchor's condition.

    Each value gets a share of an epoch's ``size // batch_size`` batches in proportion to its samples,
    rounded up or down at random.  The samples of a value are drawn in random order, and all of them are
    drawn before a sample is drawn again, except to fill up the last batch. No sample occurs twice
    in a batch. In a hierarchy, samples with the same value are equal in all levels.

    Args:
        small: What to do with values that have fewer samples than a batch: ``"error"``; ``"repeat"``: a
            sample comes several times in its batch, as a negative of itself; or ``"leave_out"``: their
            samples are not drawn, and a warning counts them.
        condition: (size,) or (size, levels) class ids; supplied by the pipeline.

    Raises:
        ValueError: For a condition without classes, for small values under ``"error"``, and if
            ``"leave_out"`` leaves none.

    Source:
        Tsai et al., Conditional Contrastive Learning with Kernel (2022), eq. (4) and appendix D:
        Fair-InfoNCE on clusters of the color.
    """

    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "an_epoch_visits_every_sample_once": "a class is not always a multiple of whole batches"
    }

    levels = True

    def __init__(
        self,
        small: Small = "error",
        on: str = "condition",
        *,
        size: int,
        batch_size: int,
        seed: int,
        condition: Tensor,
    ) -> None:
        sizes = {"size": size, "batch_size": batch_size, "seed": seed}
        super().__init__("same_condition", condition, drop_last=True, **sizes)
        self.small = small
        self._count = of_enough(
            self.groups.count.numpy(),
            batch_size,
            small,
            "same_condition",
            "the condition",
            "batch_size",
        )

    def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
        """The epoch's batches of sample indices, (batch_size,), from batch ``start`` on."""
        share = self._share(epoch)
        groups = np.repeat(np.arange(len(share)), share)
        numbers = np.arange(len(groups)) - np.repeat(share.cumsum() - share, share)
        shuffled = np.random.default_rng((self.seed, epoch, 0)).permutation(len(groups))
        passes: dict[tuple[int, int], Tensor] = {}
        for i in shuffled[start:].tolist():
            group, number = int(groups[i]), int(numbers[i])
            per_pass = -(-int(self._count[group]) // self.batch_size)
            key = group, number // per_pass
            if key not in passes:
                passes[key] = self._in_random_order(epoch, *key)
            yield self._cut(passes[key], number % per_pass)

    def _share(self, epoch: int) -> np.ndarray:
        """(G,) batches of each value in an epoch: its share, rounded at random.

        Systematic sampling in whole numbers makes shares exact on average, and their sum always
        exact.
        """
        total = int(self._count.sum())
        offset = int(np.random.default_rng((self.seed, epoch, 1)).integers(total))
        bounds = (self._count.cumsum() * len(self) + offset) // total
        return np.diff(bounds, prepend=0)

    def _in_random_order(self, epoch: int, group: int, number: int) -> Tensor:
        members = self.groups.members(group)
        draws = np.random.default_rng((self.seed, epoch, 2, group, number))
        return members[torch.from_numpy(draws.permutation(len(members)))]

    def _cut(self, members: Tensor, number: int) -> Tensor:
        """Batch ``number`` of a pass; the last batch is filled up from the one before, or by repetition."""
        if len(members) < self.batch_size:
            return members.repeat(-(-self.batch_size // len(members)))[: self.batch_size]
        first = min(number * self.batch_size, len(members) - self.batch_size)
        return members[first : first + self.batch_size]

"""Masked patches of a batch: their positions and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ccl_plugins.numerics.precision import at_least_float32


class Masks(NamedTuple):
    """The masked patches in the first v views of n samples.

    Args:
        masked: (n, v, rows, columns) True at masked patches.
        counts: The number of them in each sample, known without waiting for the device.
    """

    masked: Tensor
    counts: list[int]

    @classmethod
    def of(cls, masked: Tensor) -> Masks:
        """The masks (n, v, rows, columns), which are counted."""
        return cls(masked, masked.sum((1, 2, 3)).tolist())

    def part(self, some: slice) -> Masks:
        """The masks of some of the samples."""
        return Masks(self.masked[some], self.counts[some])

    def places(self) -> Tensor:
        """(p,) the positions of the masked patches among all, sample by sample and view by view."""
        order = self.masked.flatten().to(torch.uint8).argsort(descending=True, stable=True)
        return order[: sum(self.counts)]


@dataclass(frozen=True, eq=False)
class PatchScores:
    """The scores of the masked patches of n samples by a student and its teacher.

    Patches are ordered by sample, then by view.

    Args:
        student: (p, d) scores of the p masked patches, which are masked for the student.
        teacher: (p, d) scores by a teacher that sees the patches, without gradient.
        counts: (n, v) the number of masked patches in each of v views.
    """

    student: Tensor
    teacher: Tensor
    counts: Tensor

    @classmethod
    def joined(cls, parts: Sequence[PatchScores]) -> PatchScores:
        """The scores of all samples, from the scores of parts of them."""
        return cls(
            *(torch.cat(each) for each in zip(*(vars(p).values() for p in parts), strict=True))
        )

    def at_least_float32(self) -> PatchScores:
        """The same scores in at least float32."""
        student, teacher = at_least_float32(self.student), at_least_float32(self.teacher)
        return PatchScores(student, teacher, self.counts)

    def detached(self) -> PatchScores:
        """The same scores without gradient."""
        return PatchScores(self.student.detach(), self.teacher, self.counts)

    def mean_of_images(self, values: Tensor) -> Tensor:
        """(v, n) the mean of values (p,) over each view's masked patches; 0 for a view without."""
        counts = self.counts.flatten()
        images = torch.arange(len(counts), device=counts.device)
        image = images.repeat_interleave(counts, output_size=len(values))
        shares = values / counts[image]
        sums = values.new_zeros(len(counts)).index_add(0, image, shares)
        return sums.view_as(self.counts).T

"""Batches in which classes have given shares."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ccl_plugins.samplers.uniform import OfClasses


class Weighted(OfClasses):
    """Batches with given shares of each class, which an epoch has to within one sample.

    An epoch has as many samples as the data set. If a class's share is larger than its part of the
    data, its samples come several times, in a different order each time. If the share is smaller,
    every epoch draws different samples. The draws of a class are spread evenly over the epoch, so a
    batch has each share to within a sample or two. A sample occurs twice in a batch if the batch
    takes more of its class than the data set has; it may if a pass through the class ends within a
    batch. The sample is then compared with itself like with any other. A missing class id (-1)
    counts as a class.

    Args:
        weights: A number above 0 for each class, in the order of class ids; shares are in their ratio.
            None: equal shares. For the sources of ``mixed``, in the order of its data sets.

    Raises:
        ValueError: For another number of weights than there are classes, weights that are not above 0, a
            condition without classes, and a batch larger than the data set.
    """

    def __init__(
        self,
        weights: Sequence[float] | None = None,
        drop_last: bool = True,
        on: str = "condition",
        *,
        size: int,
        batch_size: int,
        seed: int,
        condition: Tensor,
    ) -> None:
        sizes = {"size": size, "batch_size": batch_size, "seed": seed}
        super().__init__("weighted", condition, drop_last, **sizes)
        given = [1.0] * len(self.groups) if weights is None else [float(w) for w in weights]
        if len(given) != len(self.groups) or not all(0 < w < float("inf") for w in given):
            raise ValueError(
                f"weights must be {len(self.groups)} numbers above 0, one for each class of {on!r}, not"
                f" {list(weights or ())}"
            )
        self.counts = apportioned(size, given)

    def order(self, generator: torch.Generator) -> Tensor:
        """The samples of an epoch, one batch after another."""
        samples, places = [], []
        for group, count in enumerate(self.counts):
            members = self.groups.members(group)
            passes = -(-count // len(members))
            order = torch.rand(passes, len(members), generator=generator).argsort(1).flatten()
            samples.append(members[order[:count]])
            places.append(
                (torch.arange(count) + torch.rand(count, generator=generator)) / max(1, count)
            )
        return torch.cat(samples)[torch.cat(places).argsort()]


def apportioned(size: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers whose sum is ``size``, as nearly as possible in the ratio of the weights."""
    exact = [size * weight / sum(weights) for weight in weights]
    counts = [int(each) for each in exact]
    rest = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in rest[: size - sum(counts)]:
        counts[i] += 1
    return counts

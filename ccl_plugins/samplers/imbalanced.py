"""A data set made imbalanced by leaving samples out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.arguments import fraction, one_of, whole
from ccl_plugins.samplers.uniform import OfClasses

Rule = Literal["linear", "exponential", "geometric"]
"""The rules by which the kept part grows with the class."""


class Imbalanced(OfClasses):
    """Imbalanced classes: keep a fixed part of each class, more of later classes; shuffled batches.

    Class i of C, in the order of class ids, is at step ``s = floor(i * S / C) + 1`` of S steps. Of
    its n samples, this number is kept:

    - ``"linear"``: ``floor(s / S * n)``; ``"exponential"``: ``floor(exp(s) / exp(S) * n)``, as released.
      With S = 10 the exponential rule leaves class 0 of CIFAR-10 and classes 0 to 29 of CIFAR-100
      empty; a warning counts the empty classes.
    - ``"geometric"``: ``floor(ratio ** (1 - i / (C - 1)) * n)`` and at least 1, so that no class is
      empty.

    The tables of conditions, and the evaluators, still see all samples.

    Args:
        rule: ``"linear"``, ``"exponential"`` or ``"geometric"``.
        steps: S, 1 or more; more than one step per class has no effect. With 10, every ten
            successive classes of CIFAR-100 keep the same part, as in the released code.
        ratio: The part of the first class that ``"geometric"`` keeps, above 0 and at most 1.
        selection: The seed of the released code's shuffling, from 0 to below 2**32: it decides which
            samples are kept.

    Raises:
        ValueError: For a parameter out of its range, a condition without classes, and a batch of more
            samples than are kept.

    Defaults:
        steps: Code: 10.
        selection: Code: 2021.

    Source:
        Zheng et al., Contrastive Attraction and Contrastive Repulsion for Representation Learning
        (2023), section 5.1, computed as in their code, because the printed proportions are 0 or 1
        for all classes but one.
        Geometric: Cui et al., Class-Balanced Loss Based on Effective Number of Samples (2019).
    """

    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "is_as_long_whatever_the_values": "it keeps a part of each class",
        **dict.fromkeys(
            ("an_epoch_visits_every_sample_once", "in_time_every_sample_comes"),
            "it leaves out samples of the classes that are made rare",
        ),
    }

    def __init__(
        self,
        rule: Rule = "linear",
        steps: int = 10,
        ratio: float = 0.01,
        selection: int = 2021,
        drop_last: bool = True,
        on: str = "condition",
        *,
        size: int,
        batch_size: int,
        seed: int,
        condition: Tensor,
    ) -> None:
        sizes = {"size": size, "batch_size": batch_size, "seed": seed}
        super().__init__("imbalanced", condition, drop_last, **sizes)
        whole("selection", selection, 0)
        groups = self.groups
        counts = kept_counts(groups.count.tolist(), rule, steps, ratio)
        self.kept = torch.cat(
            [
                groups.members(i)[_shuffled(int(groups.count[i]), selection)[:count]]
                for i, count in enumerate(counts)
            ]
        )
        if empty := [i for i, count in enumerate(counts) if count == 0]:
            warnings.warn(
                f"the {rule} rule leaves {len(empty)} of {len(counts)} classes without a sample, the"
                f" first is {int(condition[groups.members(empty[0])[0]])}; rule='geometric' leaves no"
                " class empty",
                stacklevel=2,
            )
        self.size = len(self.kept)
        if batch_size > self.size:
            raise ValueError(
                f"batch_size must be 1 to {self.size}, the number of kept samples of {size}, not "
                f"{batch_size}"
            )

    def order(self, generator: torch.Generator) -> Tensor:
        """The samples of an epoch, one batch after another."""
        return self.kept[super().order(generator)]


def kept_counts(
    counts: Sequence[int], rule: Rule, steps: int = 10, ratio: float = 0.01
) -> list[int]:
    """The number of each class's ``counts`` samples that are kept, by the rules of `Imbalanced`."""
    one_of("rule", rule, get_args(Rule))
    whole("steps", steps, 1)
    fraction("ratio", ratio)
    classes = len(counts)
    steps = min(steps, classes)
    kept = []
    for i, count in enumerate(counts):
        step = i * steps // classes + 1
        if rule == "geometric":
            share = ratio ** (1 - i / max(classes - 1, 1)) if classes > 1 else 1.0
            kept.append(max(int(share * count), 1))
        elif rule == "linear":
            kept.append(int(step / steps * count))
        else:
            kept.append(int(math.exp(step - steps) * count))
    return kept


def _shuffled(count: int, selection: int) -> Tensor:
    """(count,) places in the order of the released code, which numpy's legacy generator keeps stable."""
    places = np.arange(count)
    np.random.RandomState(selection).shuffle(places)
    return torch.from_numpy(places)

"""The validation part of a training split: what settings are chosen on, in place of test samples."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

EVERY = 10
"""One of so many training samples, or of their groups, is for validation."""

FEWEST = 3
"""Groups that are for validation at least, as long as these are no more than half of all."""


def validation_rows(n: int, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Rows for training and for validation, in order: every tenth of the rows shuffled in a fixed way.

    The shuffle depends on n alone, so all evaluators and runs on a data set hold out the same samples.
    Without it, rows that repeat the classes in turn would hold out one class.

    Args:
        n: Samples of the training split, 2 or more.
        groups: (n,) ids of samples that belong together; every tenth of the groups is held out, and three
            or half of them if there are few.

    Raises:
        ValueError: For fewer samples, or groups.
    """
    what = "samples"
    if groups is not None:
        _, index = groups.unique(return_inverse=True)
        n, what = int(index.max()) + 1 if n else 0, "groups of samples"
    if n < 2:
        raise ValueError(f"a validation part needs two training {what} or more, there are {n}")
    # The stream of RandomState is the same in every version of numpy.
    held = np.zeros(n, dtype=bool)
    order = np.random.RandomState(0).permutation(n)
    few = groups is not None and n <= EVERY * (FEWEST - 1)
    held[order[: min(FEWEST, n // 2)] if few else order[::EVERY]] = True
    mask = torch.from_numpy(held)
    mask = mask if groups is None else mask[index]
    return (~mask).nonzero().flatten(), mask.nonzero().flatten()

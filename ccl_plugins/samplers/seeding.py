"""Random generators that depend on the seed, the epoch and nothing else."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def stream(*numbers: int) -> np.random.Generator:
    """A generator for draws that whole numbers name: the seed, the epoch and further ones."""
    return np.random.default_rng(numbers)


def permutation(size: int, seed: int, epoch: int) -> Tensor:
    """(size,) the numbers from 0 in random order, by torch, which is fast for millions."""
    # Mixed, so that seed 0 in epoch 1 and seed 1 in epoch 0 are different orders.
    mixed = (seed * 0x9E3779B1 + epoch) & 0x7FFF_FFFF_FFFF_FFFF
    return torch.randperm(size, generator=torch.Generator().manual_seed(mixed))

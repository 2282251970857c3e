"""Tensors of all processes side by side."""

from __future__ import annotations

import torch
from lightly.utils import dist
from torch import Tensor


def gather(x: Tensor, dim: int = 0) -> Tensor:
    """Concatenate ``x`` of all processes, in the order of ranks, with gradient."""
    return torch.cat(dist.gather(x), dim) if dist.world_size() > 1 else x


def require_equal_batches(size: int, device: torch.device) -> None:
    """Refuse batches of different sizes, with which processes crash or wait for each other for ever.

    All processes must call this at the same time. On several, it waits for them and for the device.

    Args:
        size: The number of samples that this process has.
        device: A device on which the processes communicate.

    Raises:
        ValueError: If processes have different sizes; the same error on all of them.
    """
    if dist.world_size() == 1:
        return
    sizes: list[int] = gather(torch.full((1,), size, device=device)).tolist()
    if len({*sizes}) > 1:
        raise ValueError(
            f"all processes must have equally large batches, but they have {sizes} samples, by rank: leave"
            " out an incomplete last batch (drop_last=True), or give each process an equal part of"
            " the data"
        )

"""Tensors of all processes side by side."""

from __future__ import annotations

import torch
from lightly.utils import dist
from torch import Tensor


def gather(x: Tensor, dim: int = 0) -> Tensor:
    """Concatenate ``x`` of all processes, in the order of ranks, with gradient."""
    return torch.cat(dist.gather(x), dim) if dist.world_size() > 1 else x

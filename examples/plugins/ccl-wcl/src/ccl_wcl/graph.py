"""Connected components of a nearest-neighbor graph, without a loop over samples.

The number of rounds depends on the shape alone, so that nothing waits for the device.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def nearest(x: Tensor) -> Tensor:
    """For each of (..., n, d) vectors the position (..., n) of the other vector with the largest cosine."""
    x = normalize(x, dim=-1)
    itself = torch.eye(x.shape[-2], dtype=torch.bool, device=x.device)
    return (x @ x.mT).masked_fill(itself, -torch.inf).argmax(-1)


def components(neighbor: Tensor) -> Tensor:
    """Class ids (..., n): the connected components of the graph with edges i - neighbor[i].

    Every component has one cycle, and paths from sample to neighbor end on it: two samples that are each
    other's nearest, or more if distances are equal.  Paths double in length in each round, so that all
    end after log2(n) rounds.  The id is the smallest position on the cycle.

    Args:
        neighbor: (..., n) the position of each sample's neighbor.
    """
    step = neighbor
    least = torch.arange(neighbor.shape[-1], device=neighbor.device).expand_as(neighbor)
    for _ in range(neighbor.shape[-1].bit_length()):
        least = torch.minimum(least, least.gather(-1, step))
        step = step.gather(-1, step)
    return least.gather(-1, step)


def weak_labels(x: Tensor) -> Tensor:
    """Class ids (..., n) of (..., n, d) vectors: the components of their nearest-neighbor graph."""
    with torch.no_grad():
        return components(nearest(x))

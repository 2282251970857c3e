"""Connected components of a nearest-neighbor graph, without a loop over samples.

Every number of rounds is known from a shape, so that a device need not be waited for.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def nearest(x: Tensor) -> Tensor:
    """(..., n) for each of (..., n, d) vectors the position of another of largest cosine."""
    x = normalize(x, dim=-1)
    itself = torch.eye(x.shape[-2], dtype=torch.bool, device=x.device)
    return (x @ x.mT).masked_fill(itself, -torch.inf).argmax(-1)


def components(neighbor: Tensor) -> Tensor:
    """Class ids (..., n) of the connected components of the graph of edges i - neighbor[i].

    Whoever goes from sample to neighbor ends on the one cycle of the component: two samples that are
    each other's nearest, or more where distances are equal.  Paths double in each round, so that after
    log2(n) of them all have ended.  The id is the least position on the cycle.

    Args:
        neighbor: (..., n) positions.
    """
    step = neighbor
    least = torch.arange(neighbor.shape[-1], device=neighbor.device).expand_as(neighbor)
    for _ in range(neighbor.shape[-1].bit_length()):
        least = torch.minimum(least, least.gather(-1, step))
        step = step.gather(-1, step)
    return least.gather(-1, step)


def weak_labels(x: Tensor) -> Tensor:
    """Class ids (..., n) of (..., n, d) vectors: those joined by nearest neighbors share one."""
    with torch.no_grad():
        return components(nearest(x))

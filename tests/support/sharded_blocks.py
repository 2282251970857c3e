"""The blocks of a method with keys, on one process or on each of two."""

from __future__ import annotations

from typing import Any

import torch
from lightly.utils import dist
from torch import distributed

from ccl_plugins.methods import FeatureQueue
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Samples, with_keys


def losses_and_queue(n: int, gathered: bool) -> dict[str, Any]:
    """The loss of the second of two batches, of n samples on each process, and the queue after it."""
    torch.manual_seed(0)
    queue, losses = FeatureQueue(32, 3), []
    rows = slice(dist.rank() * n, (dist.rank() + 1) * n)
    for batch in range(2):
        anchors, keys = torch.randn(1, 8, 3)[:, rows], torch.randn(1, 8, 3)[:, rows]
        age, index = torch.rand(8)[rows], torch.arange(8)[rows] + 8 * batch
        given = {"first_key_view": 1, "gather_distributed": gathered}
        pairs = queue.add_to(with_keys(anchors, keys, Samples({"age": age}, index), **given))
        losses.append(InfoNCE().loss(pairs))
        queue.enqueue(pairs)
    loss = losses[-1]
    if dist.world_size() > 1:
        distributed.all_reduce(loss)
        loss = loss / dist.world_size()
    return {"loss": loss, "queue": queue.state_dict()}

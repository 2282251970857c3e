"""Pairs with momentum keys and a queue, as MoCo makes them."""

from __future__ import annotations

from typing import Any

import torch

from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.testing.material import random
from ccl_plugins.testing.objective_batches import Batch, projections


def queue_pairs(objective: Any, given: Batch, filled: int, rest: float) -> Pairs:
    """Momentum keys and a queue of 6 of which some are filled; while it is not full, keys count too.

    Args:
        objective: Whose embeddings these are.
        given: The batch.
        filled: How many places of the queue are.
        rest: What stands in the others.
    """
    count, n, width = given.views.shape
    queue = random(6, width, seed=5, dtype=given.views.dtype)
    queue[filled:] = rest
    noise = 0.1 * random(count, n, width, seed=6, dtype=given.views.dtype)
    keys = (given.views + noise).detach()
    earlier = {
        name: (z[0] if z.ndim == 3 else z)[torch.arange(6) % n].clone()
        for name, z in given.condition.items()
    }
    for z in earlier.values():
        z[filled:] = int(rest)
    return Pairs(
        anchors=projections(objective, given.views),
        keys=projections(objective, keys),
        anchor_views=tuple(range(count)),
        key_views=tuple(range(count)),
        condition=given.condition,
        index=torch.arange(n),
        queue=projections(objective, queue),
        queue_valid=torch.arange(6) < filled,
        queue_condition=earlier,
        queue_index=torch.tensor([0, 20, 21, 22, 23, 24]),
        batch_candidates=torch.tensor(filled < 6),
        features=given.views,
        extras=given.extras,
    )

"""An objective with a queue, called as lightly's NTXentLoss with a memory bank is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ccl_plugins.methods.feature_queue import FeatureQueue


class QueuedLoss(nn.Module):
    """An objective with a queue of earlier keys and their conditions, in a single call.

    In a loop of your own it takes the place of lightly's ``NTXentLoss(memory_bank_size=(size, dim))``.  A
    call computes the loss against the queue, and then puts the keys in, so call it once per step: a loss
    of both views in turn is one call on both, ``criterion(torch.stack([q0, q1]), torch.stack([k0, k1]))``.
    Without gradient, as in a validation, the queue stays as it is.  The backward pass reads a copy of the
    queue; `FeatureQueue.pairs` needs none.

    Args:
        objective: Any objective.
        size: Keys that the queue holds, 1 or more.
        dim: d, their dimension, 1 or more.
        gather_distributed: Compare with the keys of all processes.
    """

    def __init__(
        self, objective: Any, size: int, dim: int, *, gather_distributed: bool = False
    ) -> None:
        super().__init__()
        self.objective = objective
        self.queue = FeatureQueue(size, dim)
        self.gather_distributed = gather_distributed

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        condition: Tensor | Mapping[str, Tensor] | None = None,
        index: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; arguments as in `FeatureQueue.pairs`.

        Raises:
            ValueError: For shapes that do not fit, and for a batch of more keys than the queue holds.
        """
        pairs = self.queue.pairs(
            queries,
            keys,
            condition,
            index,
            embedding=self.objective.embedding,
            gather_distributed=self.gather_distributed,
        )
        if not queries.requires_grad:
            loss: Tensor = self.objective.loss(pairs)
            return loss
        queue = pairs.queue and replace(pairs.queue, keys=self.queue.keys.clone())
        loss = self.objective.loss(replace(pairs, queue=queue))
        self.queue.enqueue(pairs)
        return loss

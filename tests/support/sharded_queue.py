"""Steps of a loop with a queue of labels on this process's share of each batch, for tests on two ranks."""

from __future__ import annotations

import torch
from torch import distributed

from ccl_plugins.methods import QueuedLoss
from ccl_plugins.objectives import SupCon


def losses_of_a_loop(steps=4, n=8, d=6):
    """Losses, gradients of the queries' weight, and the queue at last."""
    rank, world = 0, 1
    if distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    mine = slice(rank * n // world, (rank + 1) * n // world)
    criterion = QueuedLoss(SupCon(0.3), 20, d, gather_distributed=True).double()
    generator, found = torch.Generator().manual_seed(1), []
    for step in range(steps):
        x, y = torch.randn(2, n, d, generator=generator, dtype=torch.float64)[:, mine]
        weight = torch.eye(d, dtype=torch.float64).requires_grad_()
        labels, index = (torch.arange(n) % 3)[mine], (torch.arange(n) + 4 * step)[mine]
        loss = criterion(x @ weight, y, labels, index)
        (gradient,) = torch.autograd.grad(loss, weight)
        for each in (loss := loss.detach().clone(), gradient):
            if world > 1:
                distributed.all_reduce(each)
        found += [loss / world, gradient / world]
    return found, dict(criterion.state_dict())

"""A loss over two ranks of a batch in which some samples lack a value."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import distributed

from ccl_plugins.testing.objective_batches import pairs_of


def two_rank_loss(case, batch, views):
    """Value and gradient by all views, averaged as DistributedDataParallel does."""
    objective, rank = case.build(), distributed.get_rank()
    whole = views.clone().requires_grad_()
    n = views.shape[1] // distributed.get_world_size()
    mine = replace(batch, views=whole).rows(slice(rank * n, (rank + 1) * n))
    loss = objective.loss(pairs_of(objective, mine, gather=True))
    (gradient,) = torch.autograd.grad(loss, whole)
    results = [loss.detach().clone(), gradient]
    for each in results:
        distributed.all_reduce(each)
        each /= distributed.get_world_size()
    return results

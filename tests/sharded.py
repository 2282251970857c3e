"""The loss of a whole batch, computed by two ranks that hold half of it each."""

from __future__ import annotations

import torch
from torch import distributed

from ccl_plugins.pairs import in_batch


def loss_and_gradient(build, views, condition):
    """This rank's loss, and the gradient of the weights as DistributedDataParallel would average it.

    The embeddings are ``views @ weight`` with one weight for all ranks; ``build()`` gives the objective.
    """
    rank, world = distributed.get_rank(), distributed.get_world_size()
    n = views.shape[1] // world
    mine = slice(rank * n, (rank + 1) * n)
    weight = torch.eye(views.shape[2], dtype=views.dtype, requires_grad=True)
    objective = build()
    here = {name: z[:, mine] if z.ndim == 3 else z[mine] for name, z in condition.items()}
    projections = torch.nn.functional.normalize(views[:, mine] @ weight, dim=-1)
    pairs = in_batch(projections, here, gather_distributed=True)
    loss = objective.loss(pairs)
    (gradient,) = torch.autograd.grad(loss, weight)
    distributed.all_reduce(gradient)
    value = loss.detach().clone()
    distributed.all_reduce(value)
    return value / world, gradient / world


def whole(build, views, condition):
    """The same on one process with the whole batch."""
    weight = torch.eye(views.shape[2], dtype=views.dtype, requires_grad=True)
    projections = torch.nn.functional.normalize(views @ weight, dim=-1)
    loss = build().loss(in_batch(projections, condition))
    return loss.detach(), torch.autograd.grad(loss, weight)[0]

"""The loss of a whole batch, computed by two ranks that hold half of it each."""

from __future__ import annotations

import torch
from torch import distributed

from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Pairs, in_batch


class Replicated(InfoNCE):
    """InfoNCE as an objective that asks to see the anchors of all ranks."""

    distributed = "replicated"


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


def replicated_parts(parts):
    """What a rank that holds half the rows of each part has after ``replicated``."""
    rank, n = distributed.get_rank(), parts["anchors"].shape[1] // distributed.get_world_size()
    mine = slice(rank * n, (rank + 1) * n)
    if set(parts) == {"anchors"}:
        pairs = in_batch(parts["anchors"][:, mine], gather_distributed=True).replicated()
    else:
        here = {
            name: part[:, mine] if part.ndim == 3 else part[mine] for name, part in parts.items()
        }
        here["keys"] = parts["keys"]
        pairs = Pairs(
            anchor_views=(0, 1), key_views=(0, 1), offset=rank * n, processes=2, **here
        ).replicated()
    found = {name: getattr(pairs, name) for name in parts}
    return {**found, "keys_are_anchors": pairs.keys is pairs.anchors}

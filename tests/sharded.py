"""The loss of a whole batch, computed by two ranks that hold half of it each."""

from __future__ import annotations

import torch
from torch import distributed

from ccl_plugins.pairs import Pairs, in_batch


def loss_and_gradient(build, views, condition):
    """This rank's loss, and the gradients as DistributedDataParallel would average them.

    The embeddings are ``views @ weight`` with one weight for all ranks; ``build()`` gives the objective,
    whose own parameters have a gradient too.
    """
    rank, world = distributed.get_rank(), distributed.get_world_size()
    n = views.shape[1] // world
    mine = slice(rank * n, (rank + 1) * n)
    here = {name: z[:, mine] if z.ndim == 3 else z[mine] for name, z in condition.items()}
    value, *gradients = _differentiated(build(), views[:, mine], here, True)
    for each in (value, *gradients):
        distributed.all_reduce(each)
    return value / world, [gradient / world for gradient in gradients]


def whole(build, views, condition):
    """The same on one process with the whole batch."""
    value, *gradients = _differentiated(build(), views, condition, False)
    return value, gradients


def _differentiated(objective, views, condition, gather):
    weight = torch.eye(views.shape[2], dtype=views.dtype, requires_grad=True)
    projections = views @ weight
    if objective.embedding == "sphere":
        projections = torch.nn.functional.normalize(projections, dim=-1)
    loss = objective.loss(in_batch(projections, condition, gather_distributed=gather))
    return loss.detach().clone(), *torch.autograd.grad(loss, [weight, *objective.parameters()])


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

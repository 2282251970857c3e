"""Loss and gradient on each rank for pairs with momentum keys, which all ranks hold, and a queue."""

from __future__ import annotations

import torch
from torch import distributed
from torch.nn.functional import normalize

from ccl_plugins.pairs import Pairs, Queue


def momentum_pairs(queries, keys, queue, rank=0, processes=1):
    """One rank's queries against the keys of all."""
    n = queries.shape[1] // processes
    views = tuple(range(len(queries)))
    return Pairs(
        queue=Queue(normalize(queue, dim=-1), torch.ones(len(queue), dtype=torch.bool)),
        anchors=normalize(queries[:, rank * n : (rank + 1) * n], dim=-1),
        keys=normalize(keys, dim=-1),
        anchor_views=views,
        key_views=views,
        offset=rank * n,
        processes=processes,
        batch_candidates=torch.tensor(False),
    )


def loss_and_gradient(build, queries, keys, queue):
    """This rank's loss and gradient, averaged over the ranks."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    queries = queries.clone().requires_grad_()
    loss = build().loss(momentum_pairs(queries, keys, queue, rank, world))
    (gradient,) = torch.autograd.grad(loss, queries)
    value = loss.detach().clone()
    for each in (value, gradient):
        distributed.all_reduce(each)
    return value / world, gradient / world


def whole(build, queries, keys, queue):
    """Loss and gradient on one process with the whole batch."""
    queries = queries.clone().requires_grad_()
    loss = build().loss(momentum_pairs(queries, keys, queue))
    return loss.detach(), torch.autograd.grad(loss, queries)[0]

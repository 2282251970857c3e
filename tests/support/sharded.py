"""Losses, gradients, queues and steps on one process or on each of two, which has its part of a batch."""

from __future__ import annotations

from typing import Any

import torch
from lightly.utils import dist
from torch import distributed, nn
from torch.nn.functional import normalize

from ccl_plugins.methods import FeatureQueue, MoCoV2, QueuedLoss
from ccl_plugins.objectives import FairCCLK, InfoNCE, SupCon
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch, with_keys


def replicated_parts(parts):
    """Call ``replicated`` on a rank that has half of each tensor's rows."""
    rank, n = distributed.get_rank(), parts["anchors"].shape[1] // distributed.get_world_size()
    mine = slice(rank * n, (rank + 1) * n)
    if set(parts) == {"anchors"}:
        pairs = in_batch(parts["anchors"][:, mine], gather_distributed=True).replicated()
    else:
        here = {
            name: part[:, mine] if part.ndim == 3 else part[mine] for name, part in parts.items()
        }
        here["keys"] = parts["keys"]
        samples = Samples(features=here.pop("features"))
        numbers = {"anchor_views": (0, 1), "key_views": (0, 1), "offset": rank * n}
        pairs = Pairs(**numbers, processes=2, samples=samples, **here).replicated()
    found = {name: getattr(pairs.samples if name == "features" else pairs, name) for name in parts}
    return {**found, "keys_are_anchors": pairs.keys is pairs.anchors}


def mean_of_calls(build, views):
    """The mean over the ranks of the loss of each rank's rows of ``views`` (u, n, d)."""
    rank, n = distributed.get_rank(), views.shape[1] // distributed.get_world_size()
    loss = build()(*views[:, rank * n : (rank + 1) * n]).detach().clone()
    distributed.all_reduce(loss)
    return loss / distributed.get_world_size()


def call_unevenly(build, per_rank):
    """The errors, or "", of calls of a criterion, each with a number of samples for each rank."""
    rank, errors = distributed.get_rank(), []
    criterion = build()
    for sizes in per_rank:
        x, y = torch.randn(2, sizes[rank], 3)
        try:
            criterion(x, y)
            errors.append("")
        except ValueError as error:
            errors.append(str(error))
    return errors


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


class Small(nn.Sequential):
    """A backbone without batch statistics, which are each process's own."""

    num_features = 16

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(48, 16), nn.LayerNorm(16), nn.GELU())


def train_moco_v2(symmetric):
    """Loss, weights and queue after four steps."""
    torch.manual_seed(0)
    method = MoCoV2(8, 4, queue_size=20, momentum=0.5, symmetric=symmetric, backbone=Small())
    return train(method.double())


def train(method, steps=4, n=8):
    """Plain gradient descent on InfoNCE and Fair-CCLK; each process has its part of each batch."""
    from ccl_plugins.kernels import RBF

    objectives = InfoNCE(temperature=0.2), FairCCLK(RBF(), temperature=0.2)
    rank, world = 0, 1
    if distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    generator, mine = (
        torch.Generator().manual_seed(1),
        slice(rank * n // world, (rank + 1) * n // world),
    )
    learned = [p for p in method.parameters() if p.requires_grad]
    for step in range(steps):
        views = torch.randn(2, n, 3, 4, 4, generator=generator, dtype=torch.float64)[:, mine]
        z = torch.rand(n, 2, generator=generator, dtype=torch.float64)[mine]
        index = torch.randperm(30, generator=generator)[:n][mine]
        embedded = method.embed(list(views)).normalized()
        pairs = method.pairs(embedded, Samples({"condition": z}, index))
        loss = sum(objective.loss(pairs) for objective in objectives)
        gradients = torch.autograd.grad(loss, learned)
        method.enqueue(pairs)
        value = loss.detach().clone()
        for each in (value, *gradients) if world > 1 else ():
            distributed.all_reduce(each)
        with torch.no_grad():
            for p, gradient in zip(learned, gradients, strict=True):
                p.sub_(gradient, alpha=0.1 / world)
        method.after_step(step, steps)
    return value / world, dict(method.state_dict())


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

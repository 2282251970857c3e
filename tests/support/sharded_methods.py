"""A few steps of a method on this process's share of each batch, for tests on two ranks."""

from __future__ import annotations

import torch
from torch import distributed, nn

from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import FairCCLK, InfoNCE
from ccl_plugins.pairs import Samples


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

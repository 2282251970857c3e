"""The queue of earlier projections stands beside the batch."""

import torch
from ccl_plugins.methods import SimCLR
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Samples
from torch import nn

from ccl_prototypes import QueuedSimCLR


class Backbone(nn.Sequential):
    num_features = 6


def made(cls, **given):
    torch.manual_seed(0)
    backbone = Backbone(nn.Flatten(), nn.Linear(12, 6))
    return cls(hidden=8, dim=4, backbone=backbone, **given).eval()


def pairs_of(method, seed):
    views = list(torch.randn(2, 5, 3, 2, 2, generator=torch.Generator().manual_seed(seed)))
    return method.pairs(
        method.embed(views).normalized(), Samples(index=torch.arange(5 * seed, 5 * seed + 5))
    )


def test_it_is_simclr_until_something_is_in_the_queue():
    queued, simclr = made(QueuedSimCLR, queue_size=12), made(SimCLR)
    torch.testing.assert_close(
        InfoNCE().loss(pairs_of(queued, 0)), InfoNCE().loss(pairs_of(simclr, 0))
    )


def test_batch_and_queue_count_whether_the_queue_is_full_or_not():
    method = made(QueuedSimCLR, queue_size=12)
    for seed in range(4):
        pairs = pairs_of(method, seed)
        assert int(pairs.counted().sum(1)[0]) == 4 + min(5 * seed, 12)
        method.enqueue(pairs)
        newest = int(method.queue.pointer) - 1
        torch.testing.assert_close(method.queue.keys[newest], pairs.anchors[-1, -1].detach())

"""Two processes train as one: every anchor is compared with the samples of both.

Each process has half the batch. With ``gather_distributed=True`` the criterion gathers the keys and
conditions of the other process. On GPUs the backend is nccl, not gloo. A pipeline needs no such
loop: ``ccl train FILE.toml --devices 2``.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import FairCCLK

STEPS = 10


def train(model, rank=0, ranks=1):
    """The losses of this process's part of every batch."""
    data = torch.Generator().manual_seed(0)  # the same images in every process
    criterion = FairCCLK(kernel=RBF(scale=0.1), temperature=0.5, gather_distributed=ranks > 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(STEPS):
        images, color = torch.rand(64, 48, generator=data), torch.rand(64, 3, generator=data)
        views = [images + 0.1 * torch.randn(64, 48, generator=data) for _ in range(2)]
        part = slice(rank * 64 // ranks, (rank + 1) * 64 // ranks)
        z0, z1 = (model(view[part]) for view in views)
        loss = criterion(z0, z1, condition=color[part])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 32))


def process(rank, address, found):
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    losses = train(DistributedDataParallel(network()), rank, ranks=2)
    distributed.all_reduce(losses)
    found.copy_(losses / 2)
    distributed.destroy_process_group()


if __name__ == "__main__":
    one = train(network())
    two = torch.zeros(STEPS).share_memory_()
    with tempfile.NamedTemporaryFile() as file:
        multiprocessing.spawn(process, (f"file://{file.name}", two), nprocs=2)
    print(f"one process    first loss {one[0]:.6f}, last {one[-1]:.6f}")
    print(f"two processes  first loss {two[0]:.6f}, last {two[-1]:.6f}")
    print(f"largest difference {(one - two).abs().max():.0e}")

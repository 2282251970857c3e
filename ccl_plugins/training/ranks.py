"""Work that one process does for all: its result reaches every process, and so does its failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from ccl_plugins.protocols import Table


def rank() -> int:
    """This process's number; 0 where there is one."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def on_first(fit: Callable[[Callable[[], Tensor]], Table], embed: Callable[[], Tensor]) -> Table:
    """``fit(embed)`` on the first process; its table on all.

    Whether ``fit`` asks for embeddings is known only to it, and all processes must take part where
    it does, so the others wait for orders.

    Raises:
        RuntimeError: On the other processes, where ``fit`` failed on the first.
    """
    if world_size() == 1:
        return fit(embed)
    if rank() == 0:
        return _lead(fit, embed)
    while (order := _broadcast_order(None)) == _EMBED:
        embed()
    if order == _FAILED:
        raise RuntimeError("a condition could not be fitted: the first process says why")
    return _share(None)


_EMBED, _DONE, _FAILED = 1, 2, 3


def _lead(fit: Callable[[Callable[[], Tensor]], Table], embed: Callable[[], Tensor]) -> Table:
    def ask() -> Tensor:
        _broadcast_order(_EMBED)
        return embed()

    try:
        table = fit(ask)
    except BaseException:
        _broadcast_order(_FAILED)
        raise
    _broadcast_order(_DONE)
    return _share(table)


def _device() -> torch.device:
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _broadcast_order(order: int | None) -> int:
    told = torch.tensor(order or 0, device=_device())
    dist.broadcast(told, src=0)
    return int(told)


def _share(table: Table | None) -> Table:
    """The first process's table: shapes as an object, then each tensor's storage."""
    described: list[Any] = [None]
    if table is not None:
        tensors = {"": table.values, **{f"/{k}": v for k, v in table.extras.items()}}
        described = [[(k, tuple(v.shape), v.dtype) for k, v in tensors.items()]]
    dist.broadcast_object_list(described, src=0, device=_device())
    received = {}
    for name, shape, dtype in described[0]:
        whole = torch.empty(shape, dtype=dtype) if table is None else tensors[name]
        near = whole.to(_device()).contiguous()
        dist.broadcast(near, src=0)
        received[name] = near.cpu()
    return Table(received.pop(""), {k.removeprefix("/"): v for k, v in received.items()})


def all_of(mine: bool) -> bool:
    """Whether something holds on all processes; waits for them and for the device."""
    if world_size() == 1:
        return mine
    told = torch.tensor(int(mine), device=_device())
    dist.all_reduce(told, dist.ReduceOp.MIN)
    return bool(told)


def require_equal(mine: int) -> None:
    """Refuse batches of different sizes, with which processes would wait for each other for ever.

    Args:
        mine: Samples in this process's batch.

    Raises:
        ValueError: On all processes, with the size of each.
    """
    if world_size() == 1:
        return
    sizes = [torch.zeros((), dtype=torch.long, device=_device()) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor(mine, device=_device()))
    found = [int(size) for size in sizes]
    if len(set(found)) > 1:
        odd = next(i for i, size in enumerate(found) if size != found[0])
        raise ValueError(
            "processes must have equally large batches: process 0 has"
            f" {found[0]} samples and process {odd} has {found[odd]}"
        )


def gather_rows(rows: Tensor, size: int) -> Tensor:
    """Join the processes' rows, of which the last may have fewer: (size, ...) on every process.

    Args:
        rows: Process r's rows ``r * ceil(size / processes)`` and on.
        size: Rows in all.
    """
    if world_size() == 1:
        return rows
    part = -(-size // world_size())
    near = rows.new_zeros((part, *rows.shape[1:]), device=_device())
    near[: len(rows)] = rows
    parts = [torch.empty_like(near) for _ in range(world_size())]
    dist.all_gather(parts, near)
    return torch.cat(parts)[:size]


def chunk(size: int) -> range:
    """The indices of this process's rows, as `gather_rows` joins them."""
    part = -(-size // world_size())
    return range(min(rank() * part, size), min((rank() + 1) * part, size))


def slices(whole: range, length: int) -> Iterator[range]:
    """Consecutive pieces of a range, ``length`` long but for the last."""
    for start in range(0, len(whole), length):
        yield whole[start : start + length]

"""Communication between the processes of a run: tables, flags and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from lightly.utils.dist import rank as rank
from lightly.utils.dist import world_size as world_size
from torch import Tensor
from torch import distributed as dist

from ccl_plugins.files.checkpoints import versions
from ccl_plugins.files.differences import differences
from ccl_plugins.files.fingerprints import other_data
from ccl_plugins.files.mapped import map_at, place_of
from ccl_plugins.files.processes import is_first
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.protocols import Table


def on_first(
    fit: Callable[[], dict[str, Table]], help: Callable[[Tensor], Any] | None = None
) -> dict[str, Table]:
    """Call ``fit()`` on the first process; return its tables on all, mapped if they are in files.

    Args:
        fit: The function that the first process calls.
        help: The function that each other process calls with the argument of `ask`.

    Raises:
        OSError: If a process does not see such a file.
        RuntimeError: On the other processes, if ``fit`` failed on the first.
    """
    if world_size() == 1:
        return fit()
    tensors: dict[tuple[str, str | None], Tensor] = {}
    shapes = None
    if is_first():
        try:
            for name, table in fit().items():
                tensors[name, None] = table.values
                tensors |= {(name, key): extra for key, extra in table.extras.items()}
            shapes = [(k, tuple(v.shape), v.dtype, place_of(v)) for k, v in tensors.items()]
        finally:
            of_first(shapes)  # after a failure too, as None: the other processes are waiting
    else:
        while isinstance(shapes := of_first(None), torch.Size):
            assert help is not None
            help(_of_first(torch.empty(shapes)))
        if shapes is None:
            raise RuntimeError("a condition could not be fitted: the first process says why")
    received: dict[str, dict[str | None, Tensor]] = {}
    for (name, key), shape, dtype, place in shapes:
        if place is not None:  # large: each process maps the file
            path, first = place
            tensor = tensors[name, key] if tensors else map_at(path, first, dtype, shape)
        else:
            tensor = _of_first(tensors[name, key] if tensors else torch.empty(shape, dtype=dtype))
        received.setdefault(name, {})[key] = tensor
    return {name: Table(parts.pop(None), parts) for name, parts in received.items()}  # type: ignore[arg-type]  # None is popped


def ask(given: Tensor) -> Tensor:
    """Ask the other processes to help with float32 numbers; called inside ``fit`` of `on_first`."""
    if world_size() == 1:
        return given
    of_first(given.shape)
    return _of_first(given.float())


def _of_first(tensor: Tensor) -> Tensor:
    """The first process's tensor on all; the others pass one of the same shape and type."""
    near = tensor.to(_device()).contiguous()
    # Some types, such as int16, cannot be sent.
    dist.broadcast(near.flatten().view(torch.uint8), src=0)
    return near.cpu()


def of_first(value: Any) -> Any:
    """The first process's value, plain data, on all."""
    if world_size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0, device=_device())
    return values[0]


def all_of(flag: bool) -> bool:
    """Whether a flag is True on all processes; waits for them and for the device."""
    return bool(gather(torch.tensor([int(flag)], device=_device())).all())


def require_same_run(record: Mapping[str, Any]) -> None:
    """Refuse processes with other data, settings, components or versions than the first one.

    Raises:
        ValueError: The same on all processes; the message names the first that differs, and the
            differences.
    """
    if world_size() == 1:
        return
    everyones: list[Any] = [None] * world_size()
    dist.all_gather_object(everyones, (record.get("data", {}), {**record, "data": versions()}))
    (data, rest), *_ = everyones
    for number, (its_data, its_rest) in enumerate(everyones):
        if differing := other_data(data, its_data):
            raise ValueError(
                f"process {number} sees other data than process 0: {'; '.join(differing)}"
            )
        if differing := [*map(str, differences(rest, its_rest))]:
            raise ValueError(
                f"process {number} is of another run than process 0: {'; '.join(differing)}: start all with"
                " one configuration"
            )


def chunk(size: int) -> range:
    """This process's part of ``size`` rows; the last process's may be shorter."""
    part = -(-size // world_size())
    return range(min(rank() * part, size), min((rank() + 1) * part, size))


def gather_rows(rows: Tensor, size: int) -> Tensor:
    """Join the rows of all processes, ``size`` in all, on every process; each passes its `chunk`."""
    if world_size() == 1:
        return rows
    part = -(-size // world_size())
    padded = rows.new_zeros((part, *rows.shape[1:]), device=_device())
    padded[: len(rows)] = rows
    return gather(padded)[:size]


def join_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, any number of each, on every process, in the order of ranks."""
    if world_size() == 1:
        return rows
    counts: list[int] = gather(torch.tensor([len(rows)], device=_device())).tolist()
    padded = rows.new_zeros((max(counts), *rows.shape[1:]), device=_device())
    padded[: len(rows)] = rows
    parts = gather(padded).split(max(counts)) if max(counts) else ()
    kept = [part[:count] for part, count in zip(parts, counts, strict=bool(parts))]
    return torch.cat([rows[:0], *(part.to(rows.device) for part in kept)])


def summed(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sums of tensors of one type over all processes, on every process, in one exchange."""
    if world_size() == 1 or not tensors:
        return list(tensors)
    flat = torch.cat([each.flatten() for each in tensors]).to(_device())
    dist.all_reduce(flat)
    parts = flat.to(tensors[0].device).split([each.numel() for each in tensors])
    return [part.view(each.shape) for part, each in zip(parts, tensors, strict=True)]


def _device() -> torch.device:
    """The device whose tensors the processes exchange."""
    if dist.is_initialized() and dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")

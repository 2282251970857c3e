"""The queue of earlier keys, each with its sample's index and condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_CONDITION = "condition:"


class FeatureQueue(nn.Module):
    """First in, first out: keys, the dataset index of each, and the rows of its conditions.

    All of it is in the state dict.  Places that were never written do not count: there is no noise
    in the queue at first.  Writing is without branches on values, so that it compiles, and the oldest
    keys are overwritten one by one, whatever the size of a batch.

    Args:
        size: Keys that it holds, 1 or more.
        dim: d, their dimension.
    """

    keys: Tensor
    """(q, d), unit-norm where the method's are."""
    index: Tensor
    """(q,) dataset indices; -1 where none is known."""
    pointer: Tensor
    """0-d, the place that is written next."""
    filled: Tensor
    """0-d, how many places have been written."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        for name, value in (("size", size), ("dim", dim)):
            if value < 1:
                raise ValueError(f"{name} of the queue must be 1 or more, not {value!r}")
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("index", torch.full((size,), -1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def valid(self) -> Tensor:
        """(q,) True at places that have been written."""
        return torch.arange(len(self), device=self.keys.device) < self.filled

    @property
    def full(self) -> Tensor:
        """0-d, whether all places have been written."""
        return self.filled == len(self)

    def condition(self, name: str, like: Tensor) -> Tensor:
        """(q,) or (q, c) rows of a condition; zeros at first, of the type and width of ``like``."""
        if _buffer(name) not in self._buffers:
            rows = like.new_zeros((len(self), *like.shape[1:]))
            self.register_buffer(_buffer(name), rows)
        return self.get_buffer(_buffer(name))

    @torch.no_grad()
    def write(
        self,
        keys: Tensor,
        index: Tensor | None = None,
        conditions: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Put a batch in the places of the oldest.

        Args:
            keys: (k, d), of all processes, the same on each.
            index: (k,) dataset indices.
            conditions: By name (k,) or (k, c).

        Raises:
            ValueError: For more keys than the queue holds.
        """
        count = len(keys)
        if count > len(self):
            raise ValueError(f"a batch of {count} keys does not fit into a queue of {len(self)}")
        places = (self.pointer + torch.arange(count, device=self.keys.device)) % len(self)
        self.keys.index_copy_(0, places, keys.to(self.keys.dtype))
        self.index.index_copy_(
            0, places, keys.new_full((count,), -1).long() if index is None else index
        )
        for name, rows in (conditions or {}).items():
            held = self.condition(name, rows)
            held.index_copy_(0, places, rows.to(held.dtype))
        self.pointer.copy_((self.pointer + count) % len(self))
        self.filled.copy_((self.filled + count).clamp_max(len(self)))

    @torch.no_grad()
    def read_conditions(self, look_up: Callable[[Tensor], Mapping[str, Tensor]]) -> None:
        """Read the rows of conditions again, by index: tables change when they are refreshed.

        Args:
            look_up: Dataset indices (q,) to the conditions that have a table, by name.
        """
        for name, rows in look_up(self.index.clamp_min(0)).items():
            self.condition(name, rows).copy_(rows)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Tensor], prefix: str, *more: Any
    ) -> None:
        start = prefix + _CONDITION
        for key, rows in state_dict.items():
            if key.startswith(start) and key.removeprefix(prefix) not in self._buffers:
                zeros = torch.zeros_like(rows, device=self.keys.device)
                self.register_buffer(key.removeprefix(prefix), zeros)
        super()._load_from_state_dict(state_dict, prefix, *more)


def _buffer(name: str) -> str:
    # A buffer's name must have no dot; a condition's may.
    return _CONDITION + name.replace("%", "%25").replace(".", "%2E")

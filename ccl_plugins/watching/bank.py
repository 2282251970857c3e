"""Features of recent samples, kept on the device until they are read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.training import ranks

FIT, HELD = 4096, 1024
"""The most samples that evaluators are fitted to, and the most on which they are measured."""


class Bank:
    """Numbers and indices of samples; when the bank is full, later samples are left out.

    Writing never waits for the device.

    Args:
        size: Rows.
    """

    def __init__(self, size: int = FIT + HELD) -> None:
        self.size = size
        self._numbers = self._index = self._when = self._count = torch.empty(0)

    def write(self, numbers: Tensor, index: Tensor, chosen: Tensor, batch: int) -> None:
        """Keep the chosen rows of a batch.

        Args:
            numbers: (n, f).
            index: (n,) dataset indices.
            chosen: (n,) bool.
            batch: The number of the batch.
        """
        if not self._count.numel():
            self._make(numbers)
        places = self._count + chosen.cumsum(0) - 1
        # What is not chosen, or has no room, goes to the last row, which is never read.
        places = torch.where(chosen & (places < self.size), places, self.size)
        self._numbers.index_copy_(0, places, numbers)
        self._index.index_copy_(0, places, index)
        self._when.index_fill_(0, places, batch)
        self._count += chosen.sum()

    def _make(self, like: Tensor) -> None:
        self._numbers = like.new_zeros(self.size + 1, like.shape[1])
        self._index = torch.zeros(self.size + 1, dtype=torch.long, device=like.device)
        self._when = torch.zeros_like(self._index)
        self._count = torch.zeros((), dtype=torch.long, device=like.device)

    def read(self) -> tuple[Tensor, Tensor]:
        """Numbers (k, f) and indices (k,) of all processes, on the CPU, ordered by batch and index."""
        numbers, index, when = self.state_dict().values()
        order = torch.argsort(index, stable=True)
        order = order[torch.argsort(when[order], stable=True)]
        return numbers[order], index[order]

    def clear(self) -> None:
        """Forget all."""
        if self._count.numel():
            self._count.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """The rows of all processes, on the CPU; called by all of them."""
        if not self._count.numel():
            none = torch.zeros(0).long()
            return {"numbers": torch.zeros(0, 0), "index": none, "when": none}
        kept = slice(min(int(self._count), self.size))
        mine = {"numbers": self._numbers, "index": self._index, "when": self._when}
        return {name: ranks.join_rows(each[kept]).cpu() for name, each in mine.items()}

    def load_state_dict(self, state: Mapping[str, Tensor], device: torch.device) -> None:
        """Restore the rows; each process gets a part of them."""
        if not len(state["numbers"]):
            return
        mine = ranks.chunk(len(state["numbers"]))
        kept = slice(mine.start, min(mine.stop, mine.start + self.size))
        self._make(state["numbers"][:0].to(device))
        count = kept.stop - kept.start
        for into, name in (
            (self._numbers, "numbers"),
            (self._index, "index"),
            (self._when, "when"),
        ):
            into[:count] = state[name][kept].to(device)
        self._count += count


def roles(size: int, passes: float, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(size,) True at samples that are written to a bank, and (size,) True at held-out samples.

    The held-out samples are the split's validation part. The number of written samples fills nine
    tenths of the bank in ``passes`` of the data, 1 or a part of 1. Samples of one of the ``groups``
    (size,) are held out together.

    Warns:
        UserWarning: If all samples are in one group; then no sample is written.
    """
    written, held = (torch.zeros(size, dtype=torch.bool) for _ in range(2))
    if size < 2:
        return written, held
    if groups is not None and (groups == groups[0]).all():
        warnings.warn(
            f"all {size} training samples are in one group, so monitors cannot hold out another group:"
            " they measure no features",
            stacklevel=2,
        )
        return written, held
    fit, out = validation_rows(size, groups)
    held[out] = True
    for rows, room in ((fit, FIT), (out, HELD)):
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
        written[rows[order[: int(0.9 * room / min(max(passes, 1e-9), 1.0))]]] = True
    return written, held

"""Features of recent samples, kept on the device until they are read."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ccl_plugins.training import ranks


class Bank:
    """Features and indices of samples, as many as there is room for; later ones are left out.

    Writing never waits for the device.

    Args:
        size: Rows.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._features = self._index = self._when = self._count = torch.empty(0)

    def write(self, features: Tensor, index: Tensor, chosen: Tensor, when: Tensor) -> None:
        """Keep the chosen rows of some batches.

        Args:
            features: (n, f).
            index: (n,) dataset indices.
            chosen: (n,) bool.
            when: (n,) the number of the batch of each.
        """
        if not self._count.numel():
            self._make(features)
        places = self._count + chosen.cumsum(0) - 1
        # What is not chosen, or has no room, goes to the last row, which is never read.
        places = torch.where(chosen & (places < self.size), places, self.size)
        self._features.index_copy_(0, places, features)
        self._index.index_copy_(0, places, index)
        self._when.index_copy_(0, places, when)
        self._count += chosen.sum()

    def _make(self, like: Tensor) -> None:
        self._features = like.new_zeros(self.size + 1, like.shape[1])
        self._index = torch.zeros(self.size + 1, dtype=torch.long, device=like.device)
        self._when = torch.zeros_like(self._index)
        self._count = torch.zeros((), dtype=torch.long, device=like.device)

    def read(self) -> tuple[Tensor, Tensor]:
        """Features (k, f) and indices (k,) of all processes, in the order of batches and indices."""
        features, index, when = self._rows()
        order = torch.argsort(index, stable=True)
        order = order[torch.argsort(when[order], stable=True)]
        return features[order], index[order]

    def clear(self) -> None:
        """Forget all."""
        if self._count.numel():
            self._count.zero_()

    def _rows(self) -> tuple[Tensor, Tensor, Tensor]:
        if not self._count.numel():
            return torch.zeros(0, 0), torch.zeros(0).long(), torch.zeros(0).long()
        count = min(int(self._count), self.size)
        kept = (self._features[:count], self._index[:count], self._when[:count])
        features, index, when = (ranks.join_rows(each) for each in kept)
        return features, index, when

    def state_dict(self) -> dict[str, Tensor]:
        """The rows of all processes, on the CPU; called by all of them."""
        features, index, when = self._rows()
        return {"features": features.cpu(), "index": index.cpu(), "when": when.cpu()}

    def load_state_dict(self, state: Mapping[str, Tensor], device: torch.device) -> None:
        """Restore the rows; each process has a part of them."""
        mine = ranks.chunk(len(state["features"]))
        kept = slice(mine.start, min(mine.stop, mine.start + self.size))
        if not len(state["features"]):
            return
        self._make(state["features"][:0].to(device))
        count = kept.stop - kept.start
        self._features[:count] = state["features"][kept].to(device)
        self._index[:count] = state["index"][kept].to(device)
        self._when[:count] = state["when"][kept].to(device)
        self._count += count

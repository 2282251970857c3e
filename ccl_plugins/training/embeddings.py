"""The embeddings of a run's processes, which compute them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from ccl_plugins.files.checkpoints import EMBEDDINGS
from ccl_plugins.metadata import fitted
from ccl_plugins.training import ranks

Embedding = Literal["projection", "key", "features"]

EMBEDDED = tuple(f"{EMBEDDINGS}{each}" for each in get_args(Embedding))
"""The names of the files that hold large embeddings while conditions are fitted to them."""


class Embeddings(fitted.Embeddings):
    """A `ccl_plugins.protocols.Embed` of several processes.

    Args:
        embed: Gives the (N, d) embeddings; called by all, and once.
        device: Where each process finds what is nearest to its part.
    """

    def __init__(self, embed: Callable[[], Tensor], device: torch.device | str) -> None:
        super().__init__(embed)
        self.device = device

    def nearest(self, centroids: Tensor) -> Tensor:
        """(N,) the nearest of the points (k, d) to each; called by the first process, the others `help`."""
        self()  # refused before the others are asked, if it is
        return self.help(ranks.ask(centroids))

    def help(self, centroids: Tensor) -> Tensor:
        """Find the nearest points to this process's part; called by all, it gives all."""
        values = self()
        part = ranks.chunk(len(values))
        nearest = fitted.nearest(values[part.start : part.stop], centroids, self.device)
        return ranks.gather_rows(nearest, len(values)).cpu()

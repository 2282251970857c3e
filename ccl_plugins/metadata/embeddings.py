"""The embeddings to which a condition is fitted, as its ``fit`` reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ccl_plugins.files.mapped import blocks

NUMBERS = 1 << 22
"""Distances that are computed at once: what a processor's cache holds."""


class Embeddings:
    """A `ccl_plugins.protocols.Embed` of one process.

    Args:
        embed: Gives the (N, d) embeddings.
    """

    def __init__(self, embed: Callable[[], Tensor]) -> None:
        self._embed = embed

    def __call__(self) -> Tensor:
        """All (N, d)."""
        return self._embed()

    def blocks(self) -> Iterator[Tensor]:
        """All, one after another in blocks of rows."""
        values = self()
        for rows in blocks(values):
            yield values[rows]

    def nearest(self, centroids: Tensor) -> Tensor:
        """(N,) the nearest of the points (k, d) to each."""
        return nearest(self(), centroids)


def nearest(x: Tensor, centroids: Tensor, device: torch.device | str = "cpu") -> Tensor:
    """(n,) the centroid (k, d) that is nearest to each point (n, d), found on a device."""
    centroids = centroids.to(device)
    squares, turned = centroids.square().sum(1), -2 * centroids.T.contiguous()
    numbers = NUMBERS if torch.device(device).type == "cpu" else 16 * NUMBERS
    room = squares.new_empty(max(1, numbers // len(centroids)), len(centroids))
    indices = [torch.empty(0, dtype=torch.long, device=device)]
    for rows in blocks(x):
        for part in x[rows].split(len(room)):
            distances = torch.addmm(squares, part.to(device), turned, out=room[: len(part)])
            indices.append(distances.min(1).indices)  # faster than argmin
    return torch.cat(indices).cpu()

"""Views of a cell by masking genes at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from ccl_plugins.transforms import uniforms
from torch import Tensor

if TYPE_CHECKING:
    from ccl_plugins.protocols import Transform


class MaskGenes:
    """Views of a cell in which each gene is set to 0 with one probability.

    The genes that are left are not scaled up.  By default numbers are taken as they are; counts can be
    scaled to one total and logarithms taken, before genes are masked and for features alike.

    Shape:
        (..., genes) -> (..., genes)

    Args:
        mask: Probability that a gene is masked, at least 0 and below 1.
        total: What the counts of each cell are scaled to sum to, as 1e4; None: they are not scaled.
        log1p: Whether to take log(1 + x).
        count: Number of views, 1 or more.

    Raises:
        ValueError: If a parameter is out of its range; on use, with ``total`` or ``log1p`` for numbers
            below 0, which are no counts.
    """

    def __init__(
        self, *, mask: float = 0.4, total: float | None = None, log1p: bool = False, count: int = 2
    ) -> None:
        if not 0 <= mask < 1:
            raise ValueError(f"mask must be at least 0 and below 1, not {mask!r}")
        if total is not None and not 0 < total < float("inf"):
            raise ValueError(f"total must be above 0 and finite, or None, not {total!r}")
        if not 1 <= count <= 1024:
            raise ValueError(f"count must be 1 to 1024, not {count!r}")
        self.mask = mask
        self.total = total
        self.log1p = log1p
        self.count = count
        self.batch_transforms: Sequence[Callable[[Tensor, Tensor], Tensor]] = [self._batch] * count

    def __call__(self, image: Any) -> list[Tensor]:
        """The views, float32, each of the cell's shape."""
        cell = self.plain(image)
        return [cell * (torch.rand(cell.shape) >= self.mask) for _ in range(self.count)]

    def plain(self, image: Any) -> Tensor:
        """A cell or a batch of them as float32, all genes there."""
        cells = torch.as_tensor(image).float()
        if (self.total is not None or self.log1p) and (cells < 0).any():
            raise ValueError(
                f"MaskGenes(total={self.total!r}, log1p={self.log1p!r}) is for counts, and the data hold"
                f" {cells.min():g}: give neither, or read the counts, such as matrix='layers/counts'"
            )
        if self.total is not None:
            # A cell without counts stays 0.
            cells = cells * (self.total / cells.sum(-1, keepdim=True).clamp_min(1e-12))
        return cells.log1p() if self.log1p else cells

    def _batch(self, cells: Tensor, seeds: Tensor) -> Tensor:
        """A view of each cell of a batch, on its device."""
        cells = self.plain(cells)
        drawn = uniforms(seeds, cells[0].numel()).view(cells.shape)
        return cells * (drawn >= self.mask)


if TYPE_CHECKING:
    _: Transform = MaskGenes()  # a type checker names missing members here

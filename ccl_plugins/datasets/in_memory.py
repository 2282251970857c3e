"""A split of a data set that fits into memory."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.utils import data


class InMemory(data.Dataset[tuple[Tensor, int]]):
    """Images in one tensor, with their targets and metadata.

    Args:
        images: (N, channels, height, width) uint8.
        targets: (N,) class ids, long.
        metadata: Columns with one row per image, (N,) or (N, c) tensors or lists of N strings; always
            with ``label``.

    Raises:
        TypeError: If images are not uint8, or targets not long.
        ValueError: If a shape or a number of rows is wrong, or ``label`` is missing.
    """

    def __init__(
        self, images: Tensor, targets: Tensor, metadata: Mapping[str, Tensor | list[str]]
    ) -> None:
        if images.dtype != torch.uint8 or targets.dtype != torch.long:
            raise TypeError(
                "images must be torch.uint8 and targets torch.int64, "
                f"not {images.dtype} and {targets.dtype}"
            )
        if images.ndim != 4 or targets.ndim != 1:
            raise ValueError(
                "images must be (N, channels, height, width) and targets (N,), "
                f"not {tuple(images.shape)} and {tuple(targets.shape)}"
            )
        if "label" not in metadata:
            raise ValueError(f"metadata must have a column 'label', not only {sorted(metadata)}")
        rows = {"targets": len(targets)} | {name: len(column) for name, column in metadata.items()}
        wrong = {name: n for name, n in rows.items() if n != len(images)}
        if wrong:
            raise ValueError(f"there are {len(images)} images, but rows in {wrong}")
        self.images = images
        self.targets = targets
        self.metadata = dict(metadata)

    def __len__(self) -> int:
        """Number of images."""
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The image (channels, height, width), uint8, and its target."""
        return self.images[index], int(self.targets[index])

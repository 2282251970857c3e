"""A split whose images are one tensor in memory."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ccl_plugins.datasets.annotated import Annotated


class InMemory(Annotated):
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
        if images.ndim != 4 or targets.shape != images.shape[:1]:
            raise ValueError(
                "images must be (N, channels, height, width) and targets (N,), "
                f"not {tuple(images.shape)} and {tuple(targets.shape)}"
            )
        super().__init__(images, metadata)
        self.images = images
        self.targets = targets

"""Random blocks of masked patches."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ccl_plugins.arguments import probability

SMALLEST = 4
"""Patches in the smallest block, while so many may still be masked."""

ASPECT = 0.3
"""The least ratio of a block's sides."""

TRIES = 10
"""Blocks that are drawn before the masked patches are taken to be enough."""


@dataclass(frozen=True)
class BlockMasks:
    """Draws masks as iBOT and DINOv2 do: rectangles of patches, in some of the views.

    Each view is drawn by itself, so that a batch may be loaded in parts.  DINOv2 masks exactly this part of
    the views of a batch, with ratios spread evenly over the range: a view has the same distribution there.

    Args:
        views: The number of views, the first ones, that may have masked patches.
        patch: Height and width of a patch in pixels.
        probability: Of a view having masked patches, 0 to 1.
        ratio: Range of the part of the patches that is masked then, drawn uniformly; at least one patch is.

    Raises:
        ValueError: For a value out of range.

    Source:
        Bao et al., BEiT: BERT Pre-Training of Image Transformers (2022), algorithm 1; Oquab et al., DINOv2:
        Learning Robust Visual Features without Supervision (2023).
    """

    views: int
    patch: tuple[int, int]
    probability: float = 0.5
    ratio: Sequence[float] = (0.1, 0.5)

    def __post_init__(self) -> None:
        probability("mask_probability", self.probability)
        rising = len(self.ratio) == 2 and 0 <= self.ratio[0] <= self.ratio[1] <= 1
        if not rising or not self.ratio[1]:
            raise ValueError(
                "mask_ratio must be the least and the largest part of the patches that is masked, as"
                f" [0.1, 0.5], from 0 to 1, not {self.ratio!r}"
            )

    def __call__(self, height: int, width: int) -> Tensor:
        """(rows, columns) True at the masked patches of a view, whose size is in pixels."""
        mask = torch.zeros(height // self.patch[0], width // self.patch[1], dtype=torch.bool)
        if random.random() < self.probability:
            wanted = max(1, int(mask.numel() * random.uniform(*self.ratio)))
            while (left := wanted - int(mask.sum())) > 0 and _add_block(mask, left):
                pass
        return mask


def _add_block(mask: Tensor, most: int) -> bool:
    """Mask a block with 1 to ``most`` patches that are not masked yet; whether one was found."""
    rows, columns = mask.shape
    for _ in range(TRIES):
        area = random.uniform(min(SMALLEST, most), most)
        aspect = math.exp(random.uniform(math.log(ASPECT), -math.log(ASPECT)))
        height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if not (0 < height <= rows and 0 < width <= columns):
            continue
        top, left = random.randint(0, rows - height), random.randint(0, columns - width)
        block = mask[top : top + height, left : left + width]
        if 0 < int((~block).sum()) <= most:
            block.fill_(True)
            return True
    return False

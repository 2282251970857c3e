"""What can be seen on a handwritten digit without reading it: weak labels that images give themselves."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

INKED = 0.4
"""How dark a pixel is that belongs to the stroke."""

BOUNDS = {
    "ink": (0.29, 0.32),
    "slant": (-0.09, 0.01),
    "width": (0.52, 0.60),
    "side": (3.44, 3.68),
    "balance": (3.33, 3.62),
}
"""Between the lower, middle and upper third of scikit-learn's digits of 8x8 pixels."""

COLUMNS = ("holes", *BOUNDS)


def measure_strokes(ink: Tensor) -> dict[str, Tensor]:
    """Six columns of class ids 0, 1 and 2, (n,) each.

    ``holes``: parts of the ground that the stroke encloses, at most 2.  The others are low, middle or
    high: ``ink``, its mean; ``slant``, how far the stroke leans to the right; ``width``, as a share of
    the height; ``side`` and ``balance``, how far right and how far down its center is.

    Args:
        ink: (n, 8, 8) in [0, 1], 1 where the stroke is; no image is without any.
    """
    place = torch.arange(ink.shape[-1], dtype=ink.dtype)
    weight = ink / ink.sum((1, 2), keepdim=True)
    side, balance = (weight.sum(1) * place).sum(1), (weight.sum(2) * place).sum(1)
    across, down = place - side[:, None], place - balance[:, None]
    wide = (weight.sum(1) * across.square()).sum(1)
    high = (weight.sum(2) * down.square()).sum(1)
    leaning = -torch.einsum("nij,ni,nj->n", weight, down, across) / high
    measured = {
        "ink": ink.mean((1, 2)),
        "slant": leaning,
        "width": (wide / high).sqrt(),
        "side": side,
        "balance": balance,
    }
    return {"holes": count_holes(ink).clamp_max(2)} | {
        name: torch.bucketize(values, torch.tensor(BOUNDS[name], dtype=values.dtype))
        for name, values in measured.items()
    }


def count_holes(ink: Tensor) -> Tensor:
    """(n,) parts of the ground without a way to the border; corners are no way.

    Args:
        ink: (n, height, width) in [0, 1].
    """
    from scipy import ndimage  # type: ignore[import-untyped]  # it ships no types

    ground = np.pad(ink.numpy() <= INKED, [(0, 0), (1, 1), (1, 1)], constant_values=True)
    return torch.tensor([ndimage.label(image)[1] - 1 for image in ground])

"""The scale of a kernel: a number, or the median distance of the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ccl_plugins.arguments import positive
from ccl_plugins.numerics.condition_values import as_vectors

Scale: TypeAlias = float | Literal["median"]

SAMPLES = 512
"""The most samples that a median is computed from, which bounds its cost."""


def read_scale(scale: Scale) -> Scale:
    """``scale``, if it is "median" or a finite number above 0; ValueError otherwise."""
    if isinstance(scale, str):
        if scale != "median":
            raise ValueError(f'scale must be a number above 0 or "median", not {scale!r}')
        return scale
    return positive("scale", scale)


def refuse_median(scale: float, kernel: str) -> float:
    """``scale``, if it is a number above 0; ValueError for "median", which needs distances."""
    if isinstance(scale, str):
        raise ValueError(
            f"scale must be a number above 0, not {scale!r}: the {kernel} kernel has no distances "
            "to take a median of; normalize=True makes the kernel independent of the scale"
        )
    return positive("scale", scale)


def resolve(
    scale: Scale, distance: Callable[[Tensor, Tensor], Tensor], b: Tensor
) -> float | Tensor:
    """``scale`` as a number: for "median", the median distance of different values of ``b``.

    The median is over at most 512 samples, evenly spaced. Pairs at a distance of 0, up to rounding,
    are left out, so that repeated values do not make the median 0; if all values are equal, the
    scale is 1. For class ids, the scale is the distance of two different ids. The scale has no
    gradient, and computing it does not wait for the device.
    """
    # No union: with it, torch 2.8 breaks the graph.
    if isinstance(scale, (float, int)):
        return scale
    with torch.no_grad():
        if not as_vectors(b).dtype.is_floating_point:
            b = torch.eye(2, device=b.device)  # two class ids as one-hot vectors
        b = b[:: -(-len(b) // SAMPLES)]
        off = distance(b, b)
        least = torch.finfo(off.dtype).tiny ** 0.5  # the least distance that Laplacian returns
        off = off.masked_fill(off <= least, torch.nan)
        # Without a dimension, nanmedian would wait for a GPU.
        median = off.flatten().nanmedian(0).values
        return torch.where(median.isnan(), 1.0, median)

"""Views of equal size in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def in_one_pass(network: Callable[[Tensor], Tensor], views: Sequence[Tensor]) -> list[Tensor]:
    """What a network makes of each view, with one forward pass for all views of a size.

    Args:
        network: From (n, ...) to (n, f).
        views: Each (n, ...), of one size or of several.
    """
    shapes = [view.shape for view in views]
    made: dict[int, Tensor] = {}
    for shape in dict.fromkeys(shapes):
        of_size = [i for i, each in enumerate(shapes) if each == shape]
        together = network(torch.cat([views[i] for i in of_size]))
        made |= zip(of_size, together.chunk(len(of_size)), strict=True)
    return [made[i] for i in range(len(views))]

"""LARS, for large batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ccl_plugins.arguments import below_one, non_negative, positive


class LARS:
    """LARS, of lightly: each matrix's step is scaled by the norm of its weights over that of its gradient.

    The step ``g + wd p`` is multiplied by ``0.001 |p| / (|g| + wd |p|)``; MoCo v3's code divides by
    ``|g + wd p|``. Parameters without weight decay, such as biases, take steps of plain momentum.

    Args:
        lr: The learning rate, above 0.
        weight_decay: Above 0; 1e-6 is usual.
        momentum: From 0 to below 1.

    Raises:
        ValueError: For a value out of range.

    Reference:
        You et al., Large Batch Training of Convolutional Networks (2017).

    Defaults:
        lr: Paper: 0.3 for 256 samples (SimCLR).
        weight_decay: Paper: 0.000001 (SimCLR).
        momentum: Code: 0.9 (SimCLR).
    """

    def __init__(self, lr: float = 0.3, weight_decay: float = 1e-6, momentum: float = 0.9) -> None:
        self.lr = positive("lr", lr)
        self.weight_decay = non_negative("weight_decay", weight_decay)
        self.momentum = below_one("momentum", momentum)
        if weight_decay == 0:
            raise ValueError(
                "weight_decay must be above 0 for lars, which scales the steps of those parameters only"
                " that decay: 1e-6 is usual"
            )

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Lightly's optimizer."""
        from lightly.utils.lars import LARS as Lightly

        given = [*map(dict, groups)]
        made: torch.optim.Optimizer = Lightly(
            given, self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )
        return made

"""LARS, for large batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ccl_plugins.arguments import below_one, checked, non_negative, positive


@dataclass(eq=False, repr=False)
class LARS:
    """LARS, of lightly: scales each matrix's step by its norm over the norm of its gradient.

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

    lr: float = checked(positive, default=0.3)
    weight_decay: float = checked(non_negative, default=1e-6)
    momentum: float = checked(below_one, default=0.9)

    def __post_init__(self) -> None:
        if self.weight_decay == 0:
            raise ValueError(
                "weight_decay must be above 0 for lars, which scales only the steps of parameters "
                f"with weight decay, not {self.weight_decay}: 1e-6 is usual"
            )

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Lightly's optimizer."""
        from lightly.utils.lars import LARS as Lightly

        given = [*map(dict, groups)]
        made: torch.optim.Optimizer = Lightly(
            given, self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )
        return made

"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ccl_plugins.arguments import below_one, checked, non_negative, positive


@dataclass(eq=False, repr=False)
class SGD:
    """Stochastic gradient descent with momentum, of torch.

    Args:
        lr: The learning rate, above 0.
        weight_decay: 0 or more.
        momentum: From 0 to below 1.
        nesterov: Whether the momentum is Nesterov's; needs a momentum above 0.
        fused: Whether a step is one operation on each type of parameters, with other rounding.

    Raises:
        ValueError: For a value out of range.
    """

    lr: float = checked(positive, default=0.06)
    weight_decay: float = checked(non_negative, default=5e-4)
    momentum: float = checked(below_one, default=0.9)
    nesterov: bool = False
    fused: bool = False

    def __post_init__(self) -> None:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0")

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Torch's optimizer."""
        return torch.optim.SGD(
            [*map(dict, groups)],
            self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
            fused=self.fused or None,
        )

"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ccl_plugins.arguments import below_one, non_negative, positive


class SGD:
    """Stochastic gradient descent with momentum, of torch.

    Args:
        lr: The learning rate, above 0.
        weight_decay: 0 or more.
        momentum: From 0 to below 1.
        nesterov: Whether the gradient is taken as if the next step were made; needs a momentum above 0.

    Raises:
        ValueError: For a value out of range.
    """

    def __init__(
        self,
        lr: float = 0.06,
        weight_decay: float = 5e-4,
        momentum: float = 0.9,
        nesterov: bool = False,
    ) -> None:
        self.lr = positive("lr", lr)
        self.weight_decay = non_negative("weight_decay", weight_decay)
        self.momentum = below_one("momentum", momentum)
        self.nesterov = nesterov
        if nesterov and momentum == 0:
            raise ValueError("nesterov needs a momentum above 0")

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Torch's optimizer."""
        return torch.optim.SGD(
            [*map(dict, groups)],
            self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )

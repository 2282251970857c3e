"""The contract of optimizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch


class Optimizer(Protocol):
    """How gradients change the parameters: its own options, and torch's optimizer made of them.

    ``[fit]`` sets which parameters decay, and how rates depend on samples and layers, equally for
    every optimizer; the groups carry these settings.
    """

    @property
    def lr(self) -> float:
        """The learning rate before it is scaled and scheduled; the constructor's parameter of this name."""

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Torch's optimizer of groups of parameters.

        Args:
            groups: Each with ``"params"``, a ``"name"``, its own ``"lr"`` and, if its parameters do
                not decay, ``"weight_decay": 0.0``; a group's values override the options.
        """

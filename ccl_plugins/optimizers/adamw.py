"""AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ccl_plugins.arguments import non_negative, positive


class AdamW:
    """AdamW, of torch: Adam whose weight decay is apart from the gradient.

    Args:
        lr: The learning rate, above 0.
        weight_decay: 0 or more.

    Raises:
        ValueError: For a value out of range.
    """

    def __init__(self, lr: float = 3e-3, weight_decay: float = 1e-4) -> None:
        self.lr = positive("lr", lr)
        self.weight_decay = non_negative("weight_decay", weight_decay)

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Torch's optimizer."""
        return torch.optim.AdamW([*map(dict, groups)], self.lr, weight_decay=self.weight_decay)

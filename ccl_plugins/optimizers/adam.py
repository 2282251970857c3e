"""Adam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ccl_plugins.arguments import checked, non_negative, positive


@dataclass(eq=False, repr=False)
class Adam:
    """Adam, of torch; its weight decay is added to the gradient.

    Args:
        lr: The learning rate, above 0.
        weight_decay: 0 or more.
        fused: Whether a step is one operation on each type of parameters, with other rounding.

    Raises:
        ValueError: For a value out of range.
    """

    of_torch: ClassVar[type[torch.optim.Adam]] = torch.optim.Adam

    lr: float = checked(positive, default=1e-3)
    weight_decay: float = checked(non_negative, default=0.0)
    fused: bool = False

    def __call__(self, groups: Sequence[Mapping[str, Any]]) -> torch.optim.Optimizer:
        """Torch's optimizer."""
        return self.of_torch(
            [*map(dict, groups)],
            self.lr,
            weight_decay=self.weight_decay,
            fused=self.fused or None,
        )

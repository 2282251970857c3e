"""AdamW."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ccl_plugins.arguments import checked, non_negative, positive
from ccl_plugins.optimizers.adam import Adam


@dataclass(eq=False, repr=False)
class AdamW(Adam):
    """AdamW, of torch: Adam with decoupled weight decay."""

    of_torch = torch.optim.AdamW
    lr: float = checked(positive, default=3e-3)
    weight_decay: float = checked(non_negative, default=1e-4)

"""Where networks run when nobody says where."""

from __future__ import annotations

import torch


def accelerator() -> torch.device:
    """This process's GPU, or the CPU where there is none: what Lightning takes for training too."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")

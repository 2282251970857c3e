"""The default device of networks."""

from __future__ import annotations

import torch


def accelerator() -> torch.device:
    """This process's GPU if it has one, else the CPU: Lightning's default for training, too."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")

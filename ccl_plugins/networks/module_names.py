"""What a module inside another may be called."""

from __future__ import annotations

from torch import nn


def is_module_name(name: str) -> bool:
    """Whether `torch.nn.ModuleDict` takes it: not empty, without dots, and no attribute of its own."""
    return bool(name) and "." not in name and not hasattr(nn.ModuleDict(), name)

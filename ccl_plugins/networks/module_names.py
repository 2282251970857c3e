"""The rule for names of modules inside another."""

from __future__ import annotations

from torch import nn


def is_module_name(name: str) -> bool:
    """Whether `torch.nn.ModuleDict` accepts the name: not empty, without dots, no attribute of it."""
    return bool(name) and "." not in name and not hasattr(nn.ModuleDict(), name)

"""Sweeps: a grid or a search of pipelines, each cell a run of its own, and the command that trains them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccl_plugins.sweep.cells import SEED as SEED
    from ccl_plugins.sweep.cells import Cell as Cell
    from ccl_plugins.sweep.cells import cells_of as cells_of
    from ccl_plugins.sweep.cells import labels_of as labels_of
    from ccl_plugins.sweep.cells import rows_of as rows_of
    from ccl_plugins.sweep.sweep import Sweep as Sweep

_FILES = {
    **dict.fromkeys(("SEED", "Cell", "cells_of", "labels_of", "rows_of"), "cells"),
    "Sweep": "sweep",
}

__all__ = [*_FILES]


def __getattr__(name: str) -> Any:
    """Import a module's members on first use: the help of ``ccl sweep`` must not wait for torch."""
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)

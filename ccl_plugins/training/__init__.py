"""Training: the step, Lightning's loops around it, the tables of conditions and the order of samples.

Lightning is imported when a run starts, not here; and torch with the first of these names, so that
``ccl train --help`` reads the settings without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccl_plugins.training.features import frozen_features as frozen_features
    from ccl_plugins.training.fitting import CannotBegin as CannotBegin
    from ccl_plugins.training.fitting import FitResult as FitResult
    from ccl_plugins.training.fitting import fit as fit
    from ccl_plugins.training.parts import Parts as Parts
    from ccl_plugins.training.same_data import OtherData as OtherData
    from ccl_plugins.training.same_data import fingerprint as fingerprint
    from ccl_plugins.training.saved import ResumePoint as ResumePoint
    from ccl_plugins.training.settings import FitSettings as FitSettings

_FILES = {
    "frozen_features": "features",
    **dict.fromkeys(("CannotBegin", "FitResult", "fit"), "fitting"),
    "Parts": "parts",
    "ResumePoint": "saved",
    **dict.fromkeys(("OtherData", "fingerprint"), "same_data"),
    "FitSettings": "settings",
}

__all__ = [*_FILES]


def __getattr__(name: str) -> Any:
    """What a file has, imported when it is asked for."""
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)

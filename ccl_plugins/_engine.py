"""Imports the sibling package ``registry``; no other module of the package imports it by name.

``registry`` is a common name for a user's own module.  If another module has that name, ours is loaded
under a private name, and both work side by side.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import registry as engine
else:
    _OURS = Path(__file__).resolve().parent.parent / "registry" / "__init__.py"
    _PRIVATE = "_ccl_registry"

    def _is_ours():
        try:
            spec = importlib.util.find_spec("registry")  # a top-level name: nothing is executed
        except ValueError:  # something in sys.modules that has no spec
            return False
        return bool(spec and spec.origin) and Path(spec.origin).resolve() == _OURS

    def _import_engine():
        if _is_ours():
            return importlib.import_module("registry")
        if _PRIVATE not in sys.modules:
            spec = importlib.util.spec_from_file_location(_PRIVATE, _OURS)
            sys.modules[_PRIVATE] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[_PRIVATE])
        return sys.modules[_PRIVATE]

    engine = _import_engine()

__all__ = ["engine"]

"""Loads the scripts of the repository, which are in no package."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

import pytest
from support.imports import ROOT


@functools.cache
def script(path: str) -> Any:
    """A script as a module, loaded once in a process; while it is loaded it finds those beside it.

    Args:
        path: Its file, from the root of the repository.
    """
    name = path.removesuffix(".py").replace("/", "_").replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up their hints
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str((ROOT / path).parent))
        spec.loader.exec_module(module)
    return module

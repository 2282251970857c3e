"""The modules of the registry, and which imports which."""

from __future__ import annotations

import graphlib

from support.imports import ROOT, modules

MODULES = [
    "errors",
    "quoting",
    "spec",
    "plugin",
    "distributions",
    "discovery",
    "catalog",
    "choice",
    "params",
    "hints",
    "source",
    "config",
]


def test_each_module_has_one_subject():
    assert {path.stem for path in (ROOT / "registry" / "ccl_registry").glob("*.py")} == {
        "__init__",
        *MODULES,
    }


def test_no_module_imports_itself_by_a_detour():
    """Imports for type checkers and those inside functions count too."""
    arrows = {
        module.removeprefix("ccl_registry."): {i.name for i in imports if i.relative}
        for module, imports in modules("ccl_registry").items()
    }
    assert arrows["catalog"] >= {"choice", "discovery", "spec"}
    assert tuple(graphlib.TopologicalSorter(arrows).static_order())

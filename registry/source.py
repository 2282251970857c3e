"""What is known of a component without importing it: its summary, and whether its module exists."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec


def summary(target: str) -> str:
    """The first line of the docstring of ``"module:Class"``; empty if it cannot be read."""
    module, _, path = target.partition(":")
    try:
        spec = _locate(module)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            return ""
        with open(spec.origin, encoding="utf-8") as file:
            node = _definition(ast.parse(file.read()).body, path.split("."))
    except (ImportError, OSError, SyntaxError, ValueError):
        return ""  # a listing must not fail; choosing the component will say what is wrong
    doc = ast.get_docstring(node) if node else None
    return doc.partition("\n")[0] if doc else ""


def missing_module(target: str) -> str:
    """The module of ``"module:Class"`` if it does not exist; empty if it exists or that is unknown."""
    module = target.partition(":")[0]
    try:
        return "" if _locate(module) else module
    except (ImportError, ValueError):  # a finder that fails, or a module without a spec
        return ""


def _locate(module: str) -> ModuleSpec | None:
    """The location of a module.  `find_spec` on a dotted name would import its packages."""
    top, *rest = module.split(".")
    # A top-level name is looked up without being executed, by the finders of editable installs too.
    spec = find_spec(top)
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec


def _definition(body: Iterable[ast.stmt], path: list[str]) -> ast.ClassDef | ast.FunctionDef | None:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == path[0]:
            return _definition(node.body, path[1:]) if path[1:] else node
    return None

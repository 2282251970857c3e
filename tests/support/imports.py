"""Which module of the project imports which, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"ccl_plugins": ROOT, "ccl_registry": ROOT / "registry"}
"""The folder that each package lies in."""


@dataclass(frozen=True)
class Import:
    """One name that a module imports.

    Args:
        name: The module imported; a name taken from it counts where that is a module too.
        relative: Whether it is written with dots.
        late: Whether it happens inside a function.
    """

    name: str
    relative: bool
    late: bool


def modules(package: str) -> dict[str, list[Import]]:
    """The imports of every module of a package, those for type checkers and late ones too."""
    found, folder = {}, FOLDERS[package]
    for path in sorted((folder / package).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = list(_imports(ast.parse(path.read_text("utf-8")), late=False))
    return found


def _imports(node: ast.AST, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, False, late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (Import(name, child.level > 0, late) for name in _sources(child))
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, late or inside)


def _sources(node: ast.ImportFrom) -> list[str]:
    """The module, or its sub-modules where the names are those."""
    module = node.module or ""
    package, *inner_folders = module.split(".")
    folder = FOLDERS.get(package, ROOT).joinpath(package, *inner_folders)
    inner = [a.name for a in node.names if _is_module(folder / a.name)]
    rest = [module] if len(inner) < len(node.names) else []
    return rest + [f"{module}.{name}" for name in inner]


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()

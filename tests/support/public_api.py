"""What others may rely on, read from the sources, and recorded in ``public_api.json``.

Built-in components are not recorded: a test compares what ``pyproject.toml`` declares with the exports.

Run ``PYTHONPATH=tests python -m support.public_api`` to record it anew.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from typing import Any

from support.imports import ROOT

from ccl_plugins.kinds import FOLDERS

RECORD = ROOT / "tests" / "support" / "public_api.json"

SIGNED = (
    "__init__",
    "protocols/__init__",
    "arguments",
    "pairs/__init__",
    "numerics/__init__",
    "information/__init__",
    "metadata/__init__",
)
"""The public modules whose functions and classes keep their signatures."""

MODULES = (
    *SIGNED,
    "watching/__init__",
    "testing/__init__",
    *(f"{folder}/__init__" for folder in FOLDERS.values()),
    "experiments/__init__",
    "sweep/__init__",
)
"""All public modules: their names may become more, and not fewer."""

HOOKS = "hooks"


def public_api() -> dict[str, Any]:
    """Names by module, and the members of functions and classes with their signatures."""
    trees = {m: ast.parse(_file(m).read_text("utf-8")) for m in {*MODULES, HOOKS}}
    signatures = {_module(name): dict(_exported(trees[name])) for name in SIGNED}
    hooks = dict(_signatures(trees[HOOKS]))["Hooks"]
    return {
        "names": {_module(name): sorted(set(_names(trees[name].body))) for name in MODULES},
        "signatures": signatures,
        "hooks": hooks,
    }


def recorded() -> dict[str, Any]:
    """What is public now, without the built-in components."""
    now = public_api()
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    addresses = [each for entries in groups.values() for each in entries.values()]
    components = {each.partition(":")[2] for each in addresses}
    kinds = {each.partition(":")[0].rpartition(".")[0] for each in addresses}
    names = {
        m: [n for n in names if m not in kinds or n not in components]
        for m, names in now["names"].items()
    }
    return now | {"names": names}


def _file(module: str) -> Any:
    return ROOT / "ccl_plugins" / f"{module}.py"


def _module(name: str) -> str:
    return f"ccl_plugins.{name.replace('/', '.')}".removesuffix(".__init__")


def _names(body: list[ast.stmt]) -> Iterator[str]:
    """What a module defines, and what it says it exports: ``from module import X as X``."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            yield from (a.name for a in node.names if a.asname == a.name)
        elif isinstance(node, ast.If):  # exports that are loaded when they are first used
            yield from _names(node.body)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _public(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (t.id for t in targets if isinstance(t, ast.Name) and [*_public(t.id)])


def _public(name: str) -> Iterator[str]:
    if not name.startswith("_"):
        yield name


def _exported(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The signatures of what a module defines and, for a folder's face, of what it exports."""
    yield from _signatures(tree)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            exported = {a.name for a in node.names if a.asname == a.name}
            source = ROOT.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if exported and source.is_file():
                found = dict(_signatures(ast.parse(source.read_text("utf-8"))))
                yield from ((name, found[name]) for name in sorted(exported & {*found}))


def _signatures(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and [*_public(node.name)]:
            yield node.name, _signature(node)
        elif isinstance(node, ast.ClassDef) and [*_public(node.name)]:
            yield node.name, dict(_members(node))


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    if node.bases:
        yield "bases", ", ".join(map(ast.unparse, node.bases))
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            name, default = ast.unparse(member.target), " = ..." if member.value else ""
            if [*_public(name)]:
                yield name, f"{ast.unparse(member.annotation)}{default}"
        elif isinstance(member, ast.FunctionDef):
            special = member.name in ("__call__", "__len__")
            if special or [*_public(member.name)]:
                marks = [ast.unparse(mark) for mark in member.decorator_list]
                yield member.name, " ".join([*marks, _signature(member)])


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


if __name__ == "__main__":
    RECORD.write_text(json.dumps(recorded(), indent=1) + "\n", encoding="utf-8")

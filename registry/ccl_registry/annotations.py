"""Type hints as types; names imported for type checkers alone are imported from the source when needed."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from .errors import InvalidSpec, one_line
from .quoting import short_repr


def resolve(name: str, written: Any, namespaces: Iterable[dict[str, Any]]) -> Any:
    """The type that the hint of a parameter stands for.

    Args:
        name: The parameter.
        written: Its hint, a type or the text of one.
        namespaces: The globals of the modules in which it may be written, the likeliest first.

    Raises:
        InvalidSpec: If it stands for nothing in any of them.
    """
    reasons = []
    for names in {id(each): each for each in namespaces}.values():
        try:
            return _resolve(written, names, dict(names), set())
        except Exception as error:  # evaluating a hint can raise anything
            reasons.append(one_line(error))
    raise InvalidSpec(
        f"the hint of {name}, {short_repr(written)}, cannot be resolved"
        f" ({reasons[0] if reasons else 'its module is unknown'})"
    )


def _resolve(written: Any, names: dict[str, Any], known: dict[str, Any], tried: set[str]) -> Any:
    while True:
        try:
            return _evaluated(written, known)
        except NameError as error:
            # One name after the other, so that nothing is imported that no hint needs.
            name = str(error.name)
            if name in tried:
                raise
            tried.add(name)
            known[name] = _import(error, names, known, tried)


def _evaluated(written: Any, names: dict[str, Any]) -> Any:
    holder = SimpleNamespace(__annotations__={"hint": written})
    # With locals of its own: typing remembers what the same text meant in another module.
    return typing.get_type_hints(holder, globalns=names, localns={})["hint"]


def _import(
    missing: NameError, names: dict[str, Any], known: dict[str, Any], tried: set[str]
) -> Any:
    """What a module's ``if TYPE_CHECKING:`` block means by a name.

    Raises:
        NameError: If no such block defines it.
        ImportError: If what it imports does not exist.
    """
    for node in _for_checkers(names):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                if (alias.asname or top) == missing.name:
                    module = importlib.import_module(alias.name)
                    return module if alias.asname else sys.modules[top]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if missing.name == (alias.asname or alias.name):
                    return _member(_module(node, names), alias.name)
                if alias.name == "*":
                    module = _module(node, names)
                    if hasattr(module, str(missing.name)):
                        return getattr(module, str(missing.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == missing.name for t in targets):
                return _resolve(ast.unparse(node.value), names, known, tried)
    raise missing


def _module(node: ast.ImportFrom, names: dict[str, Any]) -> Any:
    package = names.get("__package__") or names["__name__"].rpartition(".")[0]
    return importlib.import_module(f"{'.' * node.level}{node.module or ''}", package)


def _member(module: Any, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    return importlib.import_module(f"{module.__name__}.{name}")  # a module of a package


def _for_checkers(names: Mapping[str, Any]) -> Iterator[ast.stmt]:
    """The statements that a module has for type checkers alone."""
    module = sys.modules.get(str(names.get("__name__")))
    if module is None or vars(module) is not names:
        return
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):  # a notebook, or a module without a source
        return
    called = {"TYPE_CHECKING"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            called |= {a.asname for a in node.names if a.name == "TYPE_CHECKING" and a.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
            parts = {getattr(n, "id", getattr(n, "attr", None)) for n in ast.walk(node.test)}
            if parts & called:
                for each in node.orelse if negated else node.body:
                    yield from (n for n in ast.walk(each) if isinstance(n, ast.stmt))

"""The contract of a kind: the traits that components may declare, and the laws that they must keep."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import ccl_registry as engine
from ccl_plugins.kinds import protocol, registry

WIDTH = 100
"""The longest line of a contract that is printed."""


@dataclass(frozen=True)
class Trait:
    """A trait of a kind.

    Args:
        usage: The trait's name; for a method, with its parameters.
        default: The default as code; "": a component may lack the trait.
        doc: The meaning, on one line.
    """

    usage: str
    default: str
    doc: str


def traits(kind: str) -> list[Trait]:
    """The traits of a kind, in the order of its class; this imports torch."""
    from ccl_plugins.protocols.traits import DEFAULTS, TRAITS, names, usage

    if kind not in TRAITS:
        return []
    of_kind = TRAITS[kind]
    docs = _docstrings(of_kind)
    return [Trait(usage(of_kind, n), _shown(DEFAULTS[n]), docs[n]) for n in names(of_kind)]


def laws(module: ModuleType) -> dict[str, str]:
    """The first sentence of each law that a module of the conformance kit defines, by its name.

    Raises:
        ValueError: For a law whose docstring does not begin with one sentence on one line.
    """
    from ccl_plugins.testing.subject import laws

    found = {}
    for law in laws(module):
        sentence = (inspect.getdoc(law) or "").partition("\n\n")[0]
        if not sentence.endswith(".") or "\n" in sentence:
            raise ValueError(
                f"the docstring of {module.__name__}.{law.__name__} must begin with one sentence "
                f"on one line, not with {sentence!r}"
            )
        found[law.__name__.removeprefix("check_")] = sentence.replace("``", "`")
    return found


def contract(kind: str) -> str:
    """The contract of a kind as text.

    Raises:
        UnknownComponent: If there is no such kind.
    """
    from ccl_plugins.testing import every_kind
    from ccl_plugins.testing.subject import kind_module

    about = registry().kind(kind)
    wanted = protocol(about.name)
    parts = [f"{about.name}: {about.doc}", f"protocol: ccl_plugins.protocols.{wanted.__name__}"]
    declared = {
        f"{each.usage}{f' = {each.default}' if each.default else ''}": each.doc
        for each in traits(about.name)
    }
    if declared:
        parts += ["", "It may declare these traits:", *_listed(declared)]
    parts += ["", "`ccl check` holds it to these laws:", *_listed(laws(kind_module(about.name)))]
    parts += ["", "and, as components of every kind, to these:", *_listed(laws(every_kind))]
    return "\n".join(parts)


def _listed(entries: dict[str, str]) -> list[str]:
    """Each name on a line, with its text below."""
    lines = []
    for name, text in entries.items():
        wrapped = textwrap.wrap(engine.escaped(text, 2000), WIDTH - 6)
        lines += [f"  {name}", *(f"      {line}" for line in wrapped)]
    return lines


def _docstrings(of_kind: type) -> dict[str, str]:
    """The docstring of each member in one line; that of an attribute is the string below it."""
    (holder,) = ast.parse(inspect.getsource(of_kind)).body
    assert isinstance(holder, ast.ClassDef)
    docs = {}
    for member, after in zip(holder.body, [*holder.body[1:], None], strict=True):
        match member, after:
            case ast.FunctionDef(name=name), _:
                static = any(ast.unparse(each) == "staticmethod" for each in member.decorator_list)
                doc = ("A static method. " if static else "") + (ast.get_docstring(member) or "")
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(doc))
            ):
                pass
            case _:
                continue
        docs[name] = " ".join(doc.split())
    return docs


def _shown(default: Any) -> str:
    """A default as code; empty for None and for a method that does nothing."""
    return "" if default is None or callable(default) else repr(default)

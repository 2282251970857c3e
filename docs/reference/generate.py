"""Write what is generated and committed of the reference: the tables of traits and of laws in kinds.md."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from ccl_plugins.protocols.traits import DEFAULTS, TRAITS, names, usage
from ccl_plugins.testing import distributions, every_kind
from ccl_plugins.testing.subject import kind_module, laws

HERE = Path(__file__).parent
TRAIT = "| trait | default | |\n|---|---|---|\n"
LAW = "| law | |\n|---|---|\n"
SECTIONS = {"every kind": every_kind, "distribution": distributions}
"""Modules of laws whose section is not that of a kind."""


def render() -> dict[Path, str]:
    """The text of each file."""
    return {HERE / "kinds.md": _kinds()}


def _kinds() -> str:
    """The page of kinds with the present tables; the rest of it is written by hand."""
    text = (HERE / "kinds.md").read_text("utf-8")
    first, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return first + "".join(map(_with_tables, sections))


def _with_tables(section: str) -> str:
    name = section.removeprefix("## ").partition("\n")[0]
    if name in TRAITS:
        section = _with_table(section, TRAIT, _traits(TRAITS[name]))
    return _with_table(section, LAW, _laws(SECTIONS.get(name) or kind_module(name)))


def _with_table(section: str, heading: str, rows: list[str]) -> str:
    if heading not in section:
        raise SystemExit(f"a section of kinds.md lacks a table: add\n{heading}\nto {section:.40}")
    before, _, after = section.partition(heading)
    return f"{before}{heading}{''.join(rows)}" + re.sub(r"\A(\|.*\n)*", "", after)


def _laws(module: ModuleType) -> list[str]:
    """A row for each law of a module, with the first sentence of its docstring."""
    rows = []
    for law in laws(module):
        sentence = (inspect.getdoc(law) or "").partition("\n\n")[0]
        if not sentence.endswith(".") or "\n" in sentence:
            raise SystemExit(
                f"the docstring of {module.__name__}.{law.__name__} must begin with one sentence on one"
                f" line, and begins with {sentence!r}"
            )
        shown = sentence.replace("``", "`").replace("|", "\\|")
        rows.append(f"| `{law.__name__.removeprefix('check_')}` | {shown} |\n")
    return rows


def _traits(traits: type) -> list[str]:
    """A row for each trait in a class, with its docstring."""
    docs = _docstrings(traits)
    return [
        f"| `{usage(traits, name)}` | {_shown(DEFAULTS[name])} | {docs[name]} |\n"
        for name in names(traits)
    ]


def _docstrings(traits: type) -> dict[str, str]:
    """The docstring of each member in one line; that of an attribute is the string below it."""
    (holder,) = ast.parse(inspect.getsource(traits)).body
    docs = {}
    for member, after in zip(holder.body, [*holder.body[1:], None], strict=True):
        match member, after:
            case ast.FunctionDef(name), _:
                static = any(ast.unparse(each) == "staticmethod" for each in member.decorator_list)
                doc = ("A static method. " if static else "") + (ast.get_docstring(member) or "")
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(doc))):
                pass
            case _:
                continue
        docs[name] = " ".join(doc.split())
    return docs


def _shown(default: Any) -> str:
    """A default in a cell; a method that does nothing, and None, are the absence of the member."""
    return "" if default is None or callable(default) else f"`{default!r}`"


if __name__ == "__main__":
    for path, text in render().items():
        path.write_text(text, encoding="utf-8")

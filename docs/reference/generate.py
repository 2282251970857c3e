"""Write what is generated and committed of the reference: the tables of traits in kinds.md."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from ccl_plugins.protocols.traits import DEFAULTS, TRAITS, names, usage

HERE = Path(__file__).parent
TRAIT = "| trait | default | |\n|---|---|---|\n"


def render() -> dict[Path, str]:
    """The text of each file."""
    return {HERE / "kinds.md": _kinds()}


def _kinds() -> str:
    """The page of kinds with the present tables; the rest of it is written by hand."""
    text = (HERE / "kinds.md").read_text("utf-8")
    first, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return first + "".join(map(_with_table, sections))


def _with_table(section: str) -> str:
    kind = section.removeprefix("## ").partition("\n")[0]
    rows = _rows(TRAITS[kind]) if kind in TRAITS else []
    if rows and TRAIT not in section:
        raise SystemExit(f"the section {kind!r} of kinds.md has no table of traits: add\n{TRAIT}")
    before, _, after = section.partition(TRAIT)
    rest = re.sub(r"\A(\|.*\n)*", "", after)
    return f"{before}{TRAIT}{''.join(rows)}{rest}" if rows else section


def _rows(traits: type) -> list[str]:
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

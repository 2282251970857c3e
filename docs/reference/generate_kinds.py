"""Write the tables of traits in kinds.md; the rest of the page is written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ccl_plugins.protocols import TRAITS

TARGET = Path(__file__).with_name("kinds.md")
HEAD = "| trait | default | |\n|---|---|---|\n"


def render() -> str:
    """The page, with the present tables."""
    first, *sections = re.split(r"^(?=## )", TARGET.read_text("utf-8"), flags=re.MULTILINE)
    return first + "".join(map(_with_table, sections))


def _with_table(section: str) -> str:
    kind = section.removeprefix("## ").partition("\n")[0]
    rows = [
        f"| `{each.usage}` | {_shown(each.default)} | {each.doc} |\n"
        for each in TRAITS
        if each.kind == kind
    ]
    if rows and HEAD not in section:
        raise SystemExit(f"the section {kind!r} of {TARGET} has no table of traits: add\n{HEAD}")
    before, _, after = section.partition(HEAD)
    rest = re.sub(r"\A(\|.*\n)*", "", after)
    return f"{before}{HEAD}{''.join(rows)}{rest}" if rows else section


def _shown(default: Any) -> str:
    """A default in a cell; a method that does nothing, and None, are the absence of the member."""
    return "" if default is None or callable(default) else f"`{default!r}`"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")

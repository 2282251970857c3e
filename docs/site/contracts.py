"""The tables of traits and of laws, which the site adds to the page of the kinds."""

from __future__ import annotations

import re

from ccl_plugins.commands import contracts
from ccl_plugins.kinds import KINDS
from ccl_plugins.testing import distributions, every_kind
from ccl_plugins.testing.subject import kind_module

PAGE = "reference/kinds.md"
OTHERS = {"every kind": every_kind, "distribution": distributions}
"""Modules of laws whose section is not that of a kind."""


def with_tables(text: str) -> str:
    """The page of the kinds with the tables at the end of each section.

    Raises:
        ValueError: If a kind has no section, or if a law has no sentence of its own.
    """
    first, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    titles = [each.removeprefix("## ").partition("\n")[0] for each in sections]
    if missing := {*(kind.name for kind in KINDS), *OTHERS}.difference(titles):
        raise ValueError(f"{PAGE} has no section for {', '.join(sorted(missing))}")
    tables = [_tables(title) for title in titles]
    parts = [f"{each.rstrip()}\n\n{table}" for each, table in zip(sections, tables, strict=True)]
    return first + "\n".join(parts)


def _tables(title: str) -> str:
    rows = [(each.usage, each.default, each.doc) for each in contracts.traits(title)]
    traits = "".join(
        f"| `{usage}` | {f'`{default}`' if default else ''} | {doc} |\n"
        for usage, default, doc in rows
    )
    module = OTHERS.get(title) or kind_module(title)
    laws = "".join(
        f"| `{name}` | {_cell(sentence)} |\n" for name, sentence in contracts.laws(module).items()
    )
    head = "| trait | default | |\n|---|---|---|\n"
    return f"{head}{traits}\n" * bool(traits) + f"| law | |\n|---|---|\n{laws}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

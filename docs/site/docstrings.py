"""Docstrings as Markdown for MyST."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Container

from ccl_plugins.commands.docstrings import entries, sections

Link = Callable[[str], str]
"""From a name in single backticks to what is shown for it."""


def prose(text: str, link: Link) -> str:
    """A text in which ``x`` is code, and `Name` what ``link`` makes of a name."""
    found = []
    for i, part in enumerate(re.split(r"(``.+?``|`[^`]+`|\*\w[^*`]*\w\*)", text, flags=re.DOTALL)):
        if part.startswith("*"):
            found.append(part)
        elif not i % 2:
            found.append(re.sub(r"([*_$<|\[\]{}])", r"\\\1", part))
        elif part.startswith("``"):
            found.append(f"`{' '.join(part[2:-2].split())}`")
        else:
            found.append(link(" ".join(part[1:-1].split())))
    return "".join(found)


def markdown(doc: str, link: Link, leave_out: Container[str] = ()) -> str:
    """A docstring: its prose, and each section with its title in bold and its entries as a list."""
    parts = []
    for title, text in sections(doc).items() if doc else ():
        title, written, text = title.removesuffix(":"), text, textwrap.dedent(text)
        if title in leave_out or not text:
            continue
        if title == "":
            parts.append(prose(text, link))
        elif title == "Shape":
            parts.append(f"**Shape**: `{' '.join(text.replace('``', '').split())}`")
        elif title == "Example":
            parts.append(f"**Example**\n\n{text if '```' in text else prose(text, link)}")
        elif title == "Warning":
            parts.append(f":::{{warning}}\n{prose(text, link)}\n:::")
        else:
            parts.append(f"**{title}**\n\n{listed(written, link)}")
    return "\n\n".join(parts)


def listed(text: str, link: Link) -> str:
    """The entries of a section as a list; without names, its text."""
    named = [(name, " ".join(each.partition(":")[2].split())) for name, each in entries(text)]
    if not named:
        return prose(textwrap.dedent(text), link)
    return "\n".join(f"- `{name}`: {prose(each, link)}" for name, each in named)

"""Docstrings as Markdown for MyST."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Container

from ccl_plugins.cli.docstrings import sections

_ENTRY = re.compile(r"(?m)^(\*{0,2}[\w.]+(?: \([^)]*\))?):(?:\s|$)")
"""The head of an entry of Args, Raises and the like."""
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


def entries(text: str) -> list[tuple[str, str]]:
    """The names and texts of a section such as Args, in order; a text without a name has the name ""."""
    heads = [*_ENTRY.finditer(text)]
    if not heads or heads[0].start():
        return [("", text)]
    ends = [*(each.start() for each in heads[1:]), len(text)]
    return [
        (head[1], " ".join(text[head.end() : end].split()))
        for head, end in zip(heads, ends, strict=True)
    ]


def markdown(doc: str, link: Link, leave_out: Container[str] = ()) -> str:
    """A docstring: its prose, and each section with its title in bold and its entries as a list."""
    parts = []
    for title, text in sections(doc).items() if doc else ():
        title, text = title.removesuffix(":"), textwrap.dedent(text)
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
            parts.append(f"**{title}**\n\n{listed(text, link)}")
    return "\n\n".join(parts)


def listed(text: str, link: Link) -> str:
    """The entries of a section as a list; without names, its text."""
    return "\n".join(
        f"- `{name}`: {prose(each, link)}" if name else prose(each, link)
        for name, each in entries(text)
    )

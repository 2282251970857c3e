"""The page on which a component of each kind is written, and its sections."""

from __future__ import annotations

import re
from typing import NamedTuple

from support.imports import ROOT

PAGE = ROOT / "docs" / "how-to" / "write-a-component.md"


class Section(NamedTuple):
    """What the page says of a kind.

    Args:
        text: All of it, from its heading on.
        classes: The code of its blocks, without the line that checks the class.
        checked: The class that each block checks.
    """

    text: str
    classes: list[str]
    checked: list[str]


def heading(kind: str) -> str:
    """The heading of the section of a kind: "An objective"."""
    return f"A{'n' * (kind[0] in 'aeiou')} {kind.replace('dataset', 'data set')}"


def section(kind: str) -> Section:
    """The section of a kind."""
    text = PAGE.read_text("utf-8")
    (found,) = re.findall(rf"^## {heading(kind)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```python\n(.*?)^```", found, re.MULTILINE | re.DOTALL)
    parts = [
        re.split(rf'^check\(ccl\.local\("{kind}", (\w+)\)\)\n\Z', b, flags=re.M) for b in blocks
    ]
    return Section(found, [code for code, *_ in parts], [name for _, name, _ in parts])


def imports() -> str:
    """The imports of the checks, which the page has at its top."""
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)[0]

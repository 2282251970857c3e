"""Citations of papers in docstrings."""

from __future__ import annotations

import functools
import re
from pathlib import Path

FILE = Path(__file__).with_name("references.bib")


@functools.cache
def titles() -> dict[str, str]:
    """The key of each paper in references.bib, by its title in lower case without braces."""
    entries = re.findall(
        r"@\w+\{([\w-]+),.*?^  title = \{(.*?)\},$",
        FILE.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return {re.sub(r"[{}]", "", title).lower(): key for key, title in entries}


def citations(label: str, source: str) -> str:
    """The citations of the papers that a text names by their title.

    Raises:
        ValueError: If it names a paper, with its year in parentheses, that references.bib lacks.
    """
    text = " ".join(source.split()).lower()
    found = {}
    for title, key in titles().items():
        for written in (title, title.partition(":")[0]):
            if (place := text.find(f", {written} (")) >= 0:
                found[place] = key
    years = re.findall(r"(?<!et al\. )\((?:19|20)\d\d\)", text)
    if len(found) < len(years):
        raise ValueError(f"{label}: of {len(years)} papers, {FILE.name} has {len(found)}: {source}")
    keys = [key for _, key in sorted(found.items())]
    return f"\n\n{{cite:p}}`{','.join(keys)}`" if keys else ""

"""Count the words of the pages: python docs/words.py [FOLDER], by default docs/.

Prose is what stands outside of tables, blocks of code, comments and the addresses of links. All words
of a page are those that ``wc -w`` counts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
NOT_PROSE = re.compile(
    r"^ *(?P<fence>```|~~~).*?^ *(?P=fence)[^\n]*$"  # a block of code
    r"|^ *\|.*?$"  # a row of a table
    r"|<!--.*?-->"
    r"|(?<=\])\([^)\s]*\)",  # the address of a link
    re.MULTILINE | re.DOTALL,
)


class Words(NamedTuple):
    """The words of a page, or of several."""

    prose: int
    all: int

    def __add__(self, other: object) -> Words:
        if not isinstance(other, Words):
            return NotImplemented
        return Words(self.prose + other.prose, self.all + other.all)


def of_text(text: str) -> Words:
    """The words of a text in Markdown."""
    return Words(len(NOT_PROSE.sub("", text).split()), len(text.split()))


def of_pages(folder: Path = DOCS) -> dict[str, Words]:
    """The words of each page in a folder and below, by its path in the folder."""
    return {
        file.relative_to(folder).as_posix(): of_text(file.read_text("utf-8"))
        for file in sorted(folder.rglob("*.md"))
    }


def of_folders(pages: dict[str, Words]) -> dict[str, Words]:
    """The words of the pages in each folder at the top; ``"."`` has the pages beside the folders."""
    found: dict[str, Words] = {}
    for page, words in pages.items():
        folder = page.partition("/")[0] if "/" in page else "."
        found[folder] = found.get(folder, Words(0, 0)) + words
    return found


def table(pages: dict[str, Words]) -> Iterator[str]:
    """The lines of a table: the pages of each folder, the folders, and the sum."""
    folders = of_folders(pages)
    rows = [*pages.items(), *((f"{name}/", words) for name, words in folders.items())]
    rows.append(("all pages", sum(folders.values(), Words(0, 0))))
    yield f"{'prose':>8} {'all':>8}"
    for name, words in rows:
        yield f"{words.prose:8,} {words.all:8,}  {name}"


if __name__ == "__main__":
    print(*table(of_pages(Path(sys.argv[1]) if sys.argv[1:] else DOCS)), sep="\n")

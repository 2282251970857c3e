"""Words of others in Markdown: columns, runs and plug-ins may be called anything, and stay words.

Front matter needs none of this: it is written by a library for YAML.
"""

from __future__ import annotations

import html
import re

from ccl_plugins.files.messages import printable

_MARKS = re.compile(
    r"[\\`*\[\]#~$|@]|(?<![^\W_])_|_(?![^\W_])|(?<=[:/])/|(?<=www)\.|^[-+=]|^\d+(?=[.)])",
    re.IGNORECASE,
)
"""What Markdown reads as more than itself, in a sentence, a cell or a heading, or makes links of."""


def plain(text: str) -> str:
    """A text on one line that Markdown shows as it is, in a sentence, a heading or a cell of a table."""
    return _MARKS.sub(lambda mark: _entities(mark[0]), html.escape(printable(text), quote=False))


def code(text: str) -> str:
    """A text on one line as code, in a cell of a table, too."""
    text = printable(text)
    if "|" in text or not text:  # which ends a cell of a table, in code as well
        return f"<code>{plain(text)}</code>"
    ticks = _longer(text, 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def block(language: str, text: str) -> str:
    """Lines of code."""
    ticks = _longer(text, 3)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _longer(text: str, least: int) -> str:
    """Backticks, more than any that follow each other in a text."""
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


def _entities(text: str) -> str:
    return "".join(f"&#{ord(letter)};" for letter in text)

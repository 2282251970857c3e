"""Tables: aligned text, Markdown, LaTeX, HTML in a notebook, JSON for other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ccl_registry as engine


class TextTable(list[dict[str, Any]]):
    """Rows with equal keys, printed as a table.

    Args:
        rows: The rows.
        notes: Lines printed below the table.
        columns: The printed columns, if not all; JSON has the whole row.

    ``markdown()`` and ``latex()`` have the same cells as ``str()``.
    """

    def __init__(
        self,
        rows: Iterable[dict[str, Any]],
        notes: Sequence[str] = (),
        columns: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        super().__init__(rows)
        self.notes = [engine.escaped(note, 2000) for note in notes]
        self.columns = columns

    @property
    def _cells(self) -> list[list[str]]:
        """The names of the columns and the rows, without empty columns."""
        rows = [self.columns(row) for row in self]
        names = [n for n in (rows[0] if rows else ()) if any(_text(r[n]) for r in rows)]
        return [names, *([_text(row[n]) for n in names] for row in rows)]

    @property
    def _in_capitals(self) -> list[list[str]]:
        names, *rows = self._cells
        return [[name.upper() for name in names], *rows]

    def __str__(self) -> str:
        cells = self._in_capitals
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([*(lines if self else ["(none)"]), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        head, *body = (
            "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
            for tag, row in zip(["th"] + ["td"] * len(self), self._in_capitals, strict=True)
        )
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def json(self) -> str:
        """The rows as a JSON array."""
        return json.dumps(self, indent=2)

    def markdown(self) -> str:
        """The table in Markdown as on GitHub, with the notes as paragraphs below."""
        notes = [_markdown(note) for note in self.notes if note]
        if not self:
            return "\n\n".join(["(none)", *notes])
        names, *rows = ([_markdown(cell) for cell in row] for row in self._cells)
        rule = ["---:" if numbers else "---" for numbers in self._numbers()]
        lines = "\n".join(f"| {' | '.join(row)} |" for row in (names, rule, *rows))
        return "\n\n".join([lines, *notes])

    def latex(self) -> str:
        """The table as a ``tabular`` with the rules of the package booktabs; the notes are comments."""
        notes = [f"% {note}" for note in self.notes if note]
        if not self:
            return "\n".join(["% (none)", *notes])
        names, *rows = (f"{' & '.join(map(_latex, row))} \\\\" for row in self._cells)
        kinds = "".join("r" if numbers else "l" for numbers in self._numbers())
        begin = ["% \\usepackage{booktabs}", f"\\begin{{tabular}}{{{kinds}}}", "\\toprule"]
        end = ["\\bottomrule", "\\end{tabular}"]
        return "\n".join([*begin, names, "\\midrule", *rows, *end, *notes])

    def written(self, format: str) -> str:
        """The table as ``"text"``, ``"markdown"`` or ``"latex"``."""
        return str(self) if format == "text" else str(getattr(self, format)())

    def _numbers(self) -> list[bool]:
        """Whether each column holds only numbers, with their deviations and intervals."""
        columns = zip(*self._cells[1:], strict=True)
        return [all(re.match(r"[-+]?\d|$", cell) for cell in column) for column in columns]


def _markdown(text: str) -> str:
    """A text with all marks of Markdown, of table cells and of HTML escaped."""
    return re.sub(r"([\\`*_\[\]<>&|~$])", r"\\\1", text)


_IN_LATEX = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # one mark may begin an accent, as in German
    "[": "{[}",  # after the end of a line, it may begin an option
    "*": "{*}",
    "±": r"$\pm$",
}


def _latex(text: str) -> str:
    """A text with all commands of LaTeX escaped; a number's minus becomes LaTeX's."""
    escaped = "".join(_IN_LATEX.get(mark, mark) for mark in text)
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", escaped)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else engine.escaped(value)

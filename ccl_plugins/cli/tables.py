"""Text tables: aligned text, HTML in a notebook, JSON for other programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ccl_plugins._engine import engine


class TextTable(list[dict[str, Any]]):
    """Rows with equal keys, printed as a table.

    Args:
        rows: The rows.
        notes: Lines printed below the table.
        columns: What is printed of a row, if not all; JSON has the whole row.
    """

    def __init__(
        self,
        rows: Iterable[dict[str, Any]],
        notes: Sequence[str] = (),
        columns: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        super().__init__(rows)
        self.notes = [engine.shown(note, 2000) for note in notes]
        self.columns = columns

    @property
    def _cells(self) -> list[list[str]]:
        """The heading and the rows, without empty columns."""
        rows = [self.columns(row) for row in self]
        names = [n for n in (rows[0] if rows else ()) if any(_text(r[n]) for r in rows)]
        return [[n.upper() for n in names], *([_text(row[n]) for n in names] for row in rows)]

    def __str__(self) -> str:
        cells = self._cells
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
            for tag, row in zip(["th"] + ["td"] * len(self), self._cells, strict=True)
        )
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def json(self) -> str:
        """The rows as a JSON array."""
        return json.dumps(self, indent=2)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else engine.shown(value)

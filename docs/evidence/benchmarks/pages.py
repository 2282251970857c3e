"""The options and the output that all benchmarks share: a page in ``docs/evidence/benchmarks``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def parser(doc: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser with ``--out`` and ``--quick``.

    Args:
        doc: The benchmark's docstring, shown as help.
        quick: What ``--quick`` does, shown as its help.
    """
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--out", type=Path, default=Path(__file__).parent)
    made.add_argument("--quick", action="store_true", help=f"{quick}; nothing is written")
    return made


def span(rows: Iterable[str], column: int) -> str:
    """The least and the largest number in a column of a table's rows: ``"0.87 to 1.18"``."""
    found = [row.split("|")[column].strip() for row in rows]
    return " to ".join(sorted({min(found, key=float), max(found, key=float)}, key=float))


def publish(report: str, name: str, options: argparse.Namespace) -> None:
    """Print a page, and write it unless ``--quick`` is given."""
    print(report)
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / name).write_text(report)

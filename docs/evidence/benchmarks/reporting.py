"""The page that ``docs/evidence/benchmarks/objectives.py`` writes: its cells as tables of ratios."""

from __future__ import annotations

import platform
from typing import Any

import torch

CLOCKS = {
    "wall": "wall-clock time",
    "processor": "processor time, because the machine was shared",
}


def label(cell: dict[str, Any]) -> str:
    """The name of the cell's row in the table."""
    library = f"{cell['library']} " if cell.get("library") else ""
    kernel = f" ({cell['kernel']})" if cell["kernel"] else ""
    width = f", c {cell['c']}" if cell["reads"] else ""
    near = f", {cell['landmarks']} landmarks" if cell.get("landmarks") else ""
    known = ", running Gram statistics" if cell.get("statistics") else ""
    compiled = ", compiled" if cell.get("compiled") else ""
    return f"{library}{cell['objective']}{kernel}{width}{near}{known}{compiled}"


def ratios(cell: dict[str, Any]) -> tuple[str, str]:
    """Time and memory as ratios to the reference, or the error."""
    if "error" in cell:
        short = "allocate memory" in cell["error"]
        return "failed", "out of memory" if short else cell["error"]
    parts = (cell[f"objective_{what}"] / cell[f"reference_{what}"] for what in ("seconds", "bytes"))
    time, memory = (f"{part:.2f}" for part in parts)
    return time, memory


def page(results: list[dict[str, Any]]) -> str:
    """One row per objective, kernel and width, one column per batch size; then the queue."""
    one, repeats = results[-1], sorted({r["repeats"] for r in results})
    batches = sorted({r["b"] for r in results if "q" not in r})
    lines = [
        "# What an objective costs beside lightly's NTXentLoss",
        "",
        answer(results),
        "",
        "Time / peak memory of forward and backward, as ratios to lightly's NTXentLoss on the same",
        "embeddings (d = 128); a ratio below 1 is better. c is the width of the condition, or the number",
        f"of its classes. {one['device']}, {one['dtype']}, threads: {one['threads']},"
        f" {CLOCKS[one['clock']]}; medians of"
        f" {' to '.join(str(n) for n in repeats[:: max(len(repeats) - 1, 1)])} steps that",
        f"alternate with the reference's. torch {torch.__version__}, {platform.machine()}. Written by"
        " `python docs/evidence/benchmarks/objectives.py`.",
        "",
        "| objective | " + " | ".join(f"b = {b}" for b in batches) + " |",
        "|---" * (len(batches) + 1) + "|",
    ]
    rows: dict[str, dict[int, str]] = {}
    for cell in sorted((r for r in results if "q" not in r), key=_order):
        rows.setdefault(label(cell), {})[cell["b"]] = " / ".join(ratios(cell))
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(row.get(b, "") for b in batches) + " |")
    return "\n".join([*lines, *_queues([r for r in results if "q" in r])]) + "\n"


def answer(results: list[dict[str, Any]]) -> str:
    """How many rows of each size take less time than the reference."""
    faster: dict[int, list[bool]] = {}
    for cell in results:
        if (
            not {"q", "error"} & cell.keys()
            and not cell.get("library")
            and not cell.get("compiled")
        ):
            quicker = cell["objective_seconds"] < cell["reference_seconds"]
            faster.setdefault(cell["b"], []).append(quicker)
    parts = (f"{sum(each)} of {len(each)} at b = {b}" for b, each in sorted(faster.items()))
    return f"**Rows that take less time than NTXentLoss: {', '.join(parts)}.**"


def _order(cell: dict[str, Any]) -> tuple[Any, ...]:
    return (
        bool(cell.get("library")),
        cell["objective"],
        cell["kernel"],
        bool(cell.get("compiled")),
        cell["c"],
    )


def _queues(cells: list[dict[str, Any]]) -> list[str]:
    if not cells or any("error" in cell for cell in cells[:1]):
        return []
    own = cells[0]  # infonce
    lines = [
        "",
        f"## {own['b']} anchors in two views against a queue of {own['q']}",
        "",
        "Time is the ratio to InfoNCE over the same queue: to plain InfoNCE, the cross-entropy of the",
        "matrix of all logits, and to the objective `infonce`, which reads the queue in blocks. The unit",
        "of memory is a matrix of size anchors x queue. Every key has a condition value.",
        "",
        "| objective | time / plain InfoNCE | time / `infonce` | memory |",
        "|---|---|---|---|",
    ]
    matrix = own["b"] * own["q"] * 4
    for cell in cells:
        if "error" in cell:
            lines.append(f"| {label(cell)} | {cell['error']} | | |")
            continue
        time = cell["objective_seconds"] / cell["reference_seconds"]
        base = own["objective_seconds"] / own["reference_seconds"]
        memory = cell["objective_bytes"] / matrix
        lines.append(f"| {label(cell)} | {time:.2f} | {time / base:.2f} | {memory:.2f} |")
    plain = own["reference_bytes"] / matrix
    return [*lines, f"| plain InfoNCE | 1.00 | {1 / base:.2f} | {plain:.2f} |"]

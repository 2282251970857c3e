"""Time and memory of every installed objective, as ratios to lightly's NTXentLoss.

Forward and backward on the same tensors, in one run.  Each cell is a process of its own: its memory is
that process's high-water mark above what was there before the step, its time the median over steps
that alternate with NTXentLoss's.  ``python benchmarks/objectives.py --quick`` shows that it works;
without it, the table and its numbers are written to ``docs/benchmarks``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import torch

ANCHORS = 256
MEASURING = Path(__file__).with_name("measuring.py")
REFERENCE = "lightly NTXentLoss"


def main() -> None:
    """Measure every cell, show the page, and write it unless asked to be quick."""
    options = parse()
    common = {name: getattr(options, name) for name in ("device", "dtype", "threads", "repeats")}
    cells = [*batch_cells(options), *queue_cells(options)]
    references: dict[Any, dict[str, Any]] = {}
    results = [
        run({**cell, **common}, f"{i}/{len(cells)}", references) for i, cell in enumerate(cells, 1)
    ]
    report = table(results, common)
    print(f"\n{report}")
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "objectives.md").write_text(report)
        (options.out / "objectives.json").write_text(json.dumps(results, indent=1) + "\n")


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--condition", type=int, nargs="+", default=[3, 128, 512], help="widths c")
    parser.add_argument("--queue", type=int, default=65536)
    parser.add_argument("--objective", nargs="+", help="only these names")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs/benchmarks")
    parser.add_argument("--quick", action="store_true", help="smallest sizes; nothing is written")
    options = parser.parse_args()
    if options.quick:
        options.batch, options.condition = options.batch[:1], options.condition[:1]
        options.queue, options.repeats = 4096, 3
    return options


def batch_cells(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every objective at every size; of those that take a kernel, with RBF and with cosine."""
    for entry in sorted(entry_points(group="ccl_plugins.objective"), key=lambda e: e.name):
        if options.objective and entry.name not in options.objective:
            continue
        target = entry.load()
        parameters = inspect.signature(target).parameters
        reads = "on" in parameters
        for kernel in ("rbf", "cosine") if "kernel" in parameters else ("",):
            for c in options.condition if reads else options.condition[:1]:
                for b in options.batch:
                    yield {
                        "objective": entry.name,
                        "kernel": kernel,
                        "b": b,
                        "c": c,
                        "reads": reads,
                    }


def queue_cells(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A batch of 256 against a conditioned queue, beside lightly's loss with a queue of that size."""
    if options.objective and "fair_cclk" not in options.objective:
        return
    for objective, kernel, landmarks in (
        ("infonce", "", None),
        ("fair_cclk", "class ids", None),
        ("fair_cclk", "cosine", None),
        ("fair_cclk", "rbf", 512),
    ):
        yield {
            "objective": objective,
            "kernel": kernel,
            "landmarks": landmarks,
            "b": ANCHORS,
            "c": 128,
            "q": options.queue,
            "reads": objective != "infonce",
        }


def run(cell: dict[str, Any], place: str, references: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """The cell with its numbers, or with the error that it ended in."""
    size = cell["b"], cell.get("q")
    if size not in references:
        references[size] = process({**cell, "part": "reference"})
    found = {**cell, **references[size], **process({**cell, "part": "objective"})}
    print(place, label(found), f"b {cell['b']}", ratios(found), flush=True)
    return found


def process(cell: dict[str, Any]) -> dict[str, Any]:
    """What ``measuring.py`` says of the cell in a process of its own."""
    command = [sys.executable, str(MEASURING), json.dumps(cell)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def label(cell: dict[str, Any]) -> str:
    """The cell's row in the table."""
    kernel = f" ({cell['kernel']})" if cell["kernel"] else ""
    width = f", c {cell['c']}" if cell["reads"] else ""
    near = f", {cell['landmarks']} landmarks" if cell.get("landmarks") else ""
    return f"{cell['objective']}{kernel}{width}{near}"


def ratios(cell: dict[str, Any]) -> str:
    """Time and memory beside the reference's, or why there are none."""
    if "error" in cell:
        return f"failed: {cell['error']}"
    parts = (cell[f"objective_{what}"] / cell[f"reference_{what}"] for what in ("seconds", "bytes"))
    return " / ".join(f"{part:.2f}" for part in parts)


def table(results: list[dict[str, Any]], common: dict[str, Any]) -> str:
    """The page: one row per objective, kernel and width, one column per batch size."""
    batches = sorted({r["b"] for r in results if "q" not in r})
    lines = [
        "# Objectives beside lightly's NTXentLoss",
        "",
        f"Time / peak memory of forward and backward, as ratios to {REFERENCE} on the same embeddings",
        "(d = 128); c is the width of the condition, or the number of its classes. Below 1 is less.",
        f"{common['device']}, {common['dtype']}, {common['threads']} threads, median of"
        f" {common['repeats']}; torch {torch.__version__}, {platform.machine()}.",
        "Written by `python benchmarks/objectives.py`.",
        "",
        "| objective | " + " | ".join(f"b = {b}" for b in batches) + " |",
        "|---" * (len(batches) + 1) + "|",
    ]
    rows: dict[str, dict[int, str]] = {}
    for cell in results:
        if "q" not in cell:
            rows.setdefault(label(cell), {})[cell["b"]] = ratios(cell)
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(row.get(b, "") for b in batches) + " |")
    queues = [cell for cell in results if "q" in cell]
    if queues:
        lines += [
            "",
            f"## {ANCHORS} anchors against a queue of {queues[0]['q']}",
            "",
            f"As ratios to {REFERENCE} with a memory bank of that size, which has one view",
            "as anchors where ours have both; every candidate has a condition.",
            "",
            "| objective | time / memory |",
            "|---|---|",
        ]
        lines += [f"| {label(cell)} | {ratios(cell)} |" for cell in queues]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

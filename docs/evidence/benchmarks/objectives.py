"""Time and memory of every installed objective, as ratios to lightly's NTXentLoss.

Forward and backward run on the same tensors.  Each cell of the table has its own process: memory is the
process's peak above its memory before the step, time the median over steps that alternate with steps
of NTXentLoss.  ``python docs/evidence/benchmarks/objectives.py`` writes the table and its numbers to
``docs/evidence/benchmarks``; with ``--quick`` it measures small sizes and writes nothing.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from importlib.metadata import entry_points
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import torch
from measuring import measure
from pages import parser
from reporting import label, page, ratios

ANCHORS = 256
SERVER = get_context("forkserver")
"""Starts a new process for each cell from one that has only imported the slow modules."""

SERVER.set_forkserver_preload(["torch", "lightly.loss", "ccl_plugins", "ccl_plugins.objectives"])
NOTES = "\n## What bounds them\n"
PARTS = ("batch", "compiled", "libraries", "queue")
REWEIGHTED = ("hcl", "hscl", "hucl")
"""Objectives that are also measured compiled by inductor."""


def main() -> None:
    """Measure every cell, print the page, and write it unless ``--quick`` is given."""
    options = parse()
    common = {n: getattr(options, n) for n in ("device", "dtype", "threads", "clock", "repeats")}
    cells = [*batch_cells(options), *library_cells(options), *queue_cells(options)]
    references: dict[Any, dict[str, Any]] = {}
    results = [
        run({**cell, **common}, f"{i}/{len(cells)}", references) for i, cell in enumerate(cells, 1)
    ]
    numbers = options.out / "objectives.json"
    if options.add:
        new = {key(cell) for cell in results}
        before = json.loads(numbers.read_text())
        results = [cell for cell in before if key(cell) not in new] + results
    report = page(results)
    print(f"\n{report}")
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        shown = options.out / "objectives.md"
        written = shown.read_text() if shown.exists() else ""
        _, heading, notes = written.partition(NOTES)  # keep the notes, which are written by hand
        shown.write_text(report + heading + notes)
        numbers.write_text(json.dumps(results, indent=1) + "\n")


def key(cell: dict[str, Any]) -> tuple[Any, ...]:
    """The values that identify a cell."""
    names = ("library", "objective", "kernel", "compiled", "landmarks", "statistics", "b", "c", "q")
    return tuple(cell.get(name) for name in names)


def parse() -> argparse.Namespace:
    """Read the command line."""
    command = parser(__doc__, "smallest sizes only")
    command.add_argument("--batch", type=int, nargs="+", default=[256, 1024, 4096])
    command.add_argument("--condition", type=int, nargs="+", default=[3, 128, 512], help="widths c")
    command.add_argument("--queue", type=int, default=65536)
    command.add_argument("--objective", nargs="+", help="only these names")
    command.add_argument("--repeats", type=int, default=7)
    command.add_argument("--threads", type=int, default=torch.get_num_threads())
    command.add_argument("--clock", choices=("wall", "processor"), default="wall")
    command.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    command.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    command.add_argument("--add", action="store_true", help="keep the cells measured before")
    options = command.parse_args()
    if options.quick:
        options.batch, options.condition = options.batch[:1], options.condition[:1]
        options.queue, options.repeats = 4096, 3
    return options


def batch_cells(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every objective at every size; an objective with a kernel is measured with RBF and with cosine."""
    for entry in sorted(entry_points(group="ccl_plugins.objective"), key=lambda e: e.name):
        if options.objective and entry.name not in options.objective:
            continue
        target = entry.load()
        parameters = inspect.signature(target).parameters
        reads = "on" in parameters
        cell = {"objective": entry.name, "reads": reads}
        if "batch" in options.parts:
            for kernel in ("rbf", "cosine") if "kernel" in parameters else ("",):
                for c in options.condition if reads else options.condition[:1]:
                    yield from ({**cell, "kernel": kernel, "b": b, "c": c} for b in options.batch)
        if "compiled" in options.parts and entry.name in REWEIGHTED:
            yield {**cell, "kernel": "", "compiled": True, "b": 1024, "c": 128}


def library_cells(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The losses of pytorch-metric-learning that this library has too."""
    if "libraries" not in options.parts or options.objective:
        return
    if find_spec("pytorch_metric_learning") is None:
        print("pytorch-metric-learning is not installed: its losses are skipped")
        return
    for name in ("NTXentLoss", "SupConLoss"):
        cell = {"library": "pytorch-metric-learning", "objective": name, "kernel": ""}
        for b in options.batch:
            yield {**cell, "b": b, "c": 128, "reads": name == "SupConLoss"}


def queue_cells(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A batch of 256 against a queue with conditions."""
    if "queue" not in options.parts or options.objective:
        return
    cell = {"b": ANCHORS, "q": options.queue, "reads": True}
    yield {**cell, "objective": "infonce", "kernel": "", "c": 128, "reads": False}
    yield {**cell, "objective": "fair_cclk", "kernel": "class ids", "c": 128}
    for c in options.condition:
        yield {**cell, "objective": "fair_cclk", "kernel": "cosine", "c": c}
    for c in options.condition[1:]:
        yield {**cell, "objective": "fair_cclk", "kernel": "cosine", "c": c, "statistics": True}
    yield {**cell, "objective": "weaklysup_cclk", "kernel": "cosine", "c": 128}
    for landmarks in (128, 512):
        yield {**cell, "objective": "fair_cclk", "kernel": "rbf", "c": 128, "landmarks": landmarks}


def run(cell: dict[str, Any], place: str, references: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """The cell with its numbers, or with its error."""
    size = cell["b"], cell.get("q")
    if size not in references:
        plain = {**cell, "objective": "infonce", "kernel": "", "part": "reference"}
        for name in ("library", "compiled", "statistics", "landmarks"):
            plain.pop(name, None)
        references[size] = process(plain)
    found = {**cell, **references[size], **process({**cell, "part": "objective"})}
    print(place, label(found), f"b {cell['b']}", " / ".join(ratios(found)), flush=True)
    return found


def process(cell: dict[str, Any]) -> dict[str, Any]:
    """Measure the cell with ``measuring.py`` in a new process."""
    with ProcessPoolExecutor(1, mp_context=SERVER) as pool:
        try:
            return dict(pool.submit(measure, cell).result())
        except (
            BrokenExecutor,
            RuntimeError,
        ) as error:  # out of memory: killed, or refused by torch
            return {"error": (str(error).strip().splitlines() or ["no message"])[-1]}


if __name__ == "__main__":
    main()

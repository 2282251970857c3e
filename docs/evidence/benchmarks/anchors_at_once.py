"""Measures ``anchors_at_once``: memory and time of large batches' losses; writes ``anchors_at_once.md``.

Forward and backward of a loss on two views of normal embeddings.  Each cell is one step in a process of its
own: its memory is the peak above that before the step, and its time that of the processor.  ``--most`` is
the largest batch; ``--threads`` takes another number of threads.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from memory import high_water
from pages import parser, publish, span

from ccl_plugins.kernels import RBF, Cosine
from ccl_plugins.objectives import FairCCLK, InfoNCE

DIM, WIDTH, AT_ONCE, SMALL = 128, 64, 256, 4096
LARGE: dict[str, Any] = {
    "`infonce`": lambda: InfoNCE(0.1),
    "`fair_cclk`, `cosine`": lambda: FairCCLK(Cosine(), 0.1),
}
OBJECTIVES = {
    **LARGE,
    "`infonce`, `within_view`": lambda: InfoNCE(0.1, within_view=True),
    "`fair_cclk`, `rbf`, 256 landmarks": lambda: FairCCLK(RBF(16.0), 0.1, landmarks=256),
    "`fair_cclk`, `rbf`, exact": lambda: FairCCLK(RBF(16.0), 0.1),
}
os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # what is freed is given back at once


def measure(name: str, b: int, at_once: int | None, threads: int) -> tuple[int, float]:
    """Peak memory in bytes and seconds of a step."""
    torch.set_num_threads(threads)
    objective = OBJECTIVES[name]()

    def step(b: int) -> None:
        torch.manual_seed(0)
        views = torch.randn(2, b, DIM, requires_grad=True)
        z = torch.randn(b, WIDTH) if objective.conditions else None
        objective(*views, condition=z, anchors_at_once=at_once).backward()

    step(512)  # loads what is loaded once
    begun = time.process_time()
    peak = high_water(lambda: step(b))
    return peak, time.process_time() - begun


def alone(*given: Any) -> tuple[int, float]:
    """`measure` in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *given).result()


def rows(options: argparse.Namespace) -> list[str]:
    """A line of the table for every objective and batch."""
    cells = [(name, min(SMALL, options.most)) for name in OBJECTIVES]
    cells += [(name, options.most) for name in LARGE if options.most > SMALL]
    lines = []
    for name, b in cells:
        (whole, slow), (part, fast) = (alone(name, b, x, options.threads) for x in (None, AT_ONCE))
        lines.append(
            f"| {name} | {b:,} | {whole / 2**20:,.0f} | {part / 2**20:,.0f} |"
            f" {part / whole:.3f} | {fast / slow:.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure and write the page."""
    command = parser(__doc__, "a small batch")
    command.add_argument("--most", type=int, default=16384)
    command.add_argument("--threads", type=int, default=1)
    options = command.parse_args()
    if options.quick:
        options.most = 1024
    keys = 2 * options.most * DIM * 4 / 2**20
    lines = rows(options)
    blocks = [line for line in lines if "exact" not in line]
    text = [
        "# Some anchors at a time: what it costs",
        "",
        f"**With `anchors_at_once={AT_ONCE}` a loss of b anchors needs {span(blocks, 5)} times the memory"
        f" and {span(blocks, 6)}",
        "times the time.** An exact `rbf` saves no memory, because its operator is itself a matrix of all"
        " samples.",
        "",
        f"| objective | b | all at once (MiB) | {AT_ONCE} at a time (MiB) | memory ratio | time ratio |",
        "|---|---|---|---|---|---|",
        *lines,
        "",
        f"Forward and backward of a loss on two views of b embeddings of {DIM} numbers in float32;"
        f" conditions are {WIDTH} numbers.",
        f"Each cell is one step in a process of its own, on {options.threads} thread of a CPU: peak memory"
        " and processor time.",
        "",
        f"Two views of {options.most:,} embeddings are {keys:.0f} MiB, and their gradient as much: this is"
        " what keys",
        "gathered from several devices cost. The processes ran with `MALLOC_MMAP_THRESHOLD_=65536`: by"
        " default the C",
        "library keeps freed memory of such sizes, and the peak of a process says less about what a step"
        " needs.",
        "",
        f"torch {torch.__version__}; written by `python docs/evidence/benchmarks/anchors_at_once.py`.",
        "",
    ]
    publish("\n".join(text), "anchors_at_once.md", options)


if __name__ == "__main__":
    main()

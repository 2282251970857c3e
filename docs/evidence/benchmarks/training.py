"""Time and memory of a training step, compared with one written by hand with lightly and Lightning.

On one CPU thread: processor time, with the two loops in turns, and peak memory, each loop in its own
process.  ``python docs/evidence/benchmarks/training.py`` writes the page to
``docs/evidence/benchmarks``; with ``--quick`` it measures small sizes and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from memory import high_water
from pages import parser, publish, span
from training_loops import LOOPS, Images, method, run

import ccl_plugins as ccl
from ccl_plugins.kernels import Cosine
from ccl_plugins.methods.feature_queue import FeatureQueue
from ccl_plugins.objectives import FairCCLK, InfoNCE
from ccl_plugins.pairs import Pairs, Queue, Samples
from ccl_plugins.samplers import Uniform
from ccl_plugins.training.loader import Items, collate
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.step import take_step
from ccl_plugins.training.tables import Tables

METHODS = ("simclr", "moco_v2")


def main() -> None:
    """Measure, print the page, and write it unless ``--quick`` is given."""
    options = parse()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # about missing devices and about batch statistics
    if options.cell:
        print(json.dumps(peak(json.loads(options.cell))))
        return
    publish(page(options), "training.md", options)


def parse() -> argparse.Namespace:
    """Read the command line."""
    command = parser(__doc__, "few and small measurements")
    command.add_argument("--backbone", default="resnet10t")
    command.add_argument("--batch", type=int, default=128)
    command.add_argument(
        "--steps", type=int, default=7, help="steps per turn, of which the first two do not count"
    )
    command.add_argument("--turns", type=int, default=4)
    command.add_argument("--queue", type=int, default=65536)
    command.add_argument("--cell", help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.quick:
        options.batch, options.steps, options.turns, options.queue = 16, 4, 1, 1024
    return options


def page(options: argparse.Namespace) -> str:
    """The page, as Markdown."""
    steps = 4
    rows = [compared(name, options, steps) for name in METHODS]
    lines = [
        "# What a training step costs\n",
        f"**A step takes about the time and the memory of a loop by hand: {span(rows, 4)} times the speed,"
        f" {span(rows, 5)} times the peak memory.**",
        "The machine had other work, so ratios are accurate to a few hundredths.\n",
        "| method | ccl-plugins (images/s) | by hand (images/s) | speed ratio | peak memory ratio"
        " | share of our step outside networks |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"{options.backbone} on images of 32 x 32 pixels in batches of {options.batch}, with lightly's"
        " SimCLR views drawn in the training process.",
        f"Processor time of 1 thread, the two loops in {options.turns} turns; torch {torch.__version__},"
        f" {platform.machine()}. Written by `python docs/evidence/benchmarks/training.py`.",
        "Peak memory is that of a process above its memory before training, with batches of"
        f" {2 * options.batch}; the last column excludes drawing views.\n",
        *in_pieces(options, steps),
        *over_a_queue(options),
    ]
    return "\n".join(lines) + "\n"


def compared(name: str, options: argparse.Namespace, steps: int) -> str:
    """The line of a method: ours beside the loop by hand."""
    cell = {"method": name, "backbone": options.backbone, "batch": options.batch}
    speed = turns({**cell, "steps": options.steps}, options.turns)
    more = {**cell, "steps": steps, "batch": 2 * options.batch}
    memory = {loop: alone({**more, "loop": loop})["bytes"] for loop in LOOPS}
    return (
        f"| {name} | {speed['ours']:.1f} | {speed['by_hand']:.1f}"
        f" | {speed['ours'] / speed['by_hand']:.3f}"
        f" | {memory['ours'] / memory['by_hand']:.3f} | {share(cell):.1%} |"
    )


def turns(cell: dict[str, Any], count: int) -> dict[str, float]:
    """Images per second of both loops, run in turns; medians over all steps."""
    seconds: dict[str, list[float]] = {loop: [] for loop in LOOPS}
    for turn in range(count):
        for loop in LOOPS if turn % 2 else LOOPS[::-1]:
            seconds[loop] += run({**cell, "loop": loop})
    return {loop: cell["batch"] / statistics.median(found) for loop, found in seconds.items()}


def alone(cell: dict[str, Any]) -> dict[str, float]:
    """Peak memory and step time of a cell, measured in a new process."""
    command = [sys.executable, __file__, "--cell", json.dumps(cell)]
    # Otherwise the allocator may keep freed tensors, up to a third of the peak.
    given_back = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, env=given_back, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak(cell: dict[str, Any]) -> dict[str, float]:
    """Peak memory in bytes of a loop, above the memory in use before it, and seconds of a step."""
    # No warm-up run: this run would reuse the memory it leaves, and its peak would look smaller.
    seconds: list[float] = []
    used = high_water(lambda: seconds.extend(run(cell)))
    return {"bytes": used, "seconds": statistics.median(seconds)}


def share(cell: dict[str, Any]) -> float:
    """The share of our step, without drawing views, spent outside backbone and head."""
    torch.manual_seed(0)
    images, views = Images(256), ccl.create("transform", "simclr", size=32)
    objective, model = InfoNCE(within_view=cell["method"] == "simclr"), method(cell)
    parts, tables = Parts(images, views, model, objective, sampler=Uniform), Tables({}, 256)
    keys = [(0, i, i % 256) for i in range(cell["batch"])]
    batch = collate(Items(images, views, 0).__getitems__(keys))

    def step() -> None:
        loss, pairs = take_step(parts, tables, batch)
        loss.backward()
        model.enqueue(pairs)
        model.after_step(0, 10)

    def networks() -> None:
        embedded = model.embed(batch.views)
        embedded.projections.sum().backward()

    whole, inside = seconds_of({"whole": step, "inside": networks}, 7).values()
    return max(0.0, 1 - inside / whole)


def seconds_of(functions: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median processor seconds of each function, run in turns; the first run does not count."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            found[name].append(time.process_time() - start)
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def in_pieces(options: argparse.Namespace, steps: int) -> list[str]:
    """A large batch, embedded whole and in pieces."""
    batch = options.batch * 2
    cell = {"method": "simclr", "backbone": options.backbone, "batch": batch, "loop": "ours"}
    lines = [
        f"`simclr` with batches of {batch}, embedded whole and in pieces (`micro_batch`):\n",
        "| samples per piece | peak memory (MiB) | images/s |",
        "|---|---|---|",
    ]
    for size in (None, batch // 4, batch // 16):
        found = alone({**cell, "micro_batch": size, "steps": steps})
        rate = batch / found["seconds"]
        lines.append(f"| {size or batch} | {found['bytes'] / 2**20:.0f} | {rate:.1f} |")
    return lines


def over_a_queue(options: argparse.Namespace) -> list[str]:
    """CCL-K and InfoNCE over a whole queue, as in `moco_v2`, with the update of the queue."""
    torch.manual_seed(0)
    n, d, c = options.batch, 128, 128
    unit = torch.nn.functional.normalize
    infonce, cclk = InfoNCE(), FairCCLK(Cosine())
    queue = FeatureQueue(options.queue, d)
    queue.keep_statistics(cclk.statistics())
    filled = torch.arange(options.queue)
    rows = {"condition": torch.randn(options.queue, c)}
    queue.write(unit(torch.randn(options.queue, d), dim=-1), filled, rows)
    keys, z = unit(torch.randn(1, n, d), dim=-1), {"condition": torch.randn(n, c)}

    def step(objective: Any) -> None:
        anchors = unit(torch.randn(1, n, d), dim=-1).requires_grad_()
        held = {"condition": queue.condition("condition", z["condition"])}
        seen = Queue(queue.keys, queue.valid, held, grams=queue.grams())
        pairs = Pairs(anchors, keys, (0,), (1,), Samples(z), seen)
        objective.loss(pairs).backward()
        queue.write(keys[0], filled[:n], z)

    found = seconds_of({"infonce": lambda: step(infonce), "cclk": lambda: step(cclk)}, 5)
    milliseconds = {name: f"{1000 * each:.0f} ms" for name, each in found.items()}
    return [
        f"\nWith a queue of {options.queue:,} keys and a condition of {c} numbers, as in `moco_v2`: the"
        f" loss of {n} anchors, its gradient and the",
        f"update of the queue take {milliseconds['cclk']} with `fair_cclk` and `cosine`, and"
        f" {milliseconds['infonce']} with `infonce`,",
        f"a ratio of {found['cclk'] / found['infonce']:.1f}.",
    ]


if __name__ == "__main__":
    main()

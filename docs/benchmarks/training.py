"""A training step beside one written by hand with lightly and Lightning: time, memory, and where it goes.

All in one run on a CPU: processor time of one thread, loops taking turns; peak memory in processes of
their own.  ``python docs/benchmarks/training.py --quick`` shows that it works; without it, the
page is written to ``docs/benchmarks``.
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
from pages import parser, publish
from training_loops import Images, method, run

import ccl_plugins as ccl
from ccl_plugins.kernels import Cosine
from ccl_plugins.methods.feature_queue import FeatureQueue
from ccl_plugins.objectives import FairCCLK, InfoNCE
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.samplers import Uniform
from ccl_plugins.training import Parts
from ccl_plugins.training.loader import Items, collate
from ccl_plugins.training.step import take_step
from ccl_plugins.training.tables import Tables

METHODS, LOOPS = ("simclr", "moco_v2"), ("ours", "by_hand")


def main() -> None:
    """Measure, show the page, and write it unless asked to be quick."""
    options = parse()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # of devices that are not there, and of batch statistics
    if options.cell:
        print(json.dumps(peak(json.loads(options.cell))))
        return
    publish(page(options), "training.md", options)


def parse() -> argparse.Namespace:
    """The options of the command line."""
    command = parser(__doc__, "few and small")
    command.add_argument("--backbone", default="resnet10t")
    command.add_argument("--batch", type=int, default=128)
    command.add_argument(
        "--steps", type=int, default=7, help="of a turn, two of which do not count"
    )
    command.add_argument("--turns", type=int, default=4)
    command.add_argument("--queue", type=int, default=65536)
    command.add_argument("--cell", help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.quick:
        options.batch, options.steps, options.turns, options.queue = 16, 4, 1, 1024
    return options


def page(options: argparse.Namespace) -> str:
    """All of it, as Markdown."""
    steps, large = 4, options.batch * 2
    lines = [
        "# What a training step costs\n",
        f"{options.backbone} on images of 32 pixels, batches of {options.batch}, lightly's SimCLR views"
        " drawn in the training process; processor time of",
        f"1 thread, loops taking {options.turns} turns; torch {torch.__version__},"
        f" {platform.machine()}. Written by `python docs/benchmarks/training.py`.\n",
        "| method | ours (images/s) | by hand (images/s) | ratio | peak memory ratio"
        " | of our step outside networks |",
        "|---|---|---|---|---|---|",
    ]
    for name in METHODS:
        cell = {"method": name, "backbone": options.backbone, "batch": options.batch}
        speed = turns({**cell, "steps": options.steps}, options.turns)
        memory = {
            loop: alone({**cell, "steps": steps, "batch": large, "loop": loop})["bytes"]
            for loop in LOOPS
        }
        outside = share(cell)
        lines.append(
            f"| {name} | {speed['ours']:.1f} | {speed['by_hand']:.1f}"
            f" | {speed['ours'] / speed['by_hand']:.3f}"
            f" | {memory['ours'] / memory['by_hand']:.3f} | {outside:.1%} |"
        )
    lines += [
        "\nMemory is what a process needs above what it had before training, with batches of"
        f" {large}; the last column is without drawing views. Where a",
        "machine has other work, as here, ratios are good to a few hundredths.\n",
        *in_pieces(options, steps),
        *over_a_queue(options),
    ]
    return "\n".join(lines) + "\n"


def turns(cell: dict[str, Any], count: int) -> dict[str, float]:
    """Images per second of both loops, which take turns; medians of all steps."""
    seconds: dict[str, list[float]] = {loop: [] for loop in LOOPS}
    for turn in range(count):
        for loop in LOOPS if turn % 2 else LOOPS[::-1]:
            seconds[loop] += run({**cell, "loop": loop})
    return {loop: cell["batch"] / statistics.median(found) for loop, found in seconds.items()}


def alone(cell: dict[str, Any]) -> dict[str, float]:
    """Peak memory and speed of a cell in a process of its own."""
    command = [sys.executable, __file__, "--cell", json.dumps(cell)]
    # Without this, freed tensors stay with the allocator by chance, up to a third of the peak.
    given_back = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, env=given_back, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def peak(cell: dict[str, Any]) -> dict[str, float]:
    """Bytes that a loop needs at most, above what is held before it, and seconds of a step."""
    # No smaller run first: what its tensors leave behind would be taken for none of this one's.
    seconds: list[float] = []
    used = high_water(lambda: seconds.extend(run(cell)))
    return {"bytes": used, "seconds": statistics.median(seconds)}


def share(cell: dict[str, Any]) -> float:
    """The part of our step, without drawing views, that is spent outside backbone and head."""
    torch.manual_seed(0)
    images, views = Images(256), ccl.create("views", "simclr", size=32)
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
    """Median processor seconds of each, taking turns, after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            found[name].append(time.process_time() - start)
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def in_pieces(options: argparse.Namespace, steps: int) -> list[str]:
    """A large batch, whole and in pieces."""
    batch = options.batch * 2
    cell = {"method": "simclr", "backbone": options.backbone, "batch": batch, "loop": "ours"}
    lines = [
        f"`simclr` with batches of {batch}, whole and in pieces (`micro_batch`):\n",
        "| samples at a time | peak memory (MiB) | images/s |",
        "|---|---|---|",
    ]
    for size in (None, batch // 4, batch // 16):
        found = alone({**cell, "micro_batch": size, "steps": steps})
        rate = batch / found["seconds"]
        lines.append(f"| {size or batch} | {found['bytes'] / 2**20:.0f} | {rate:.1f} |")
    return lines


def over_a_queue(options: argparse.Namespace) -> list[str]:
    """CCL-K and InfoNCE with all of a queue as candidates, as `moco_v2` keeps it, and writing into it."""
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
        known = {"queue_condition": held, "queue_valid": queue.valid, "extras": queue.grams()}
        pairs = Pairs(anchors, keys, (0,), (1,), queue=queue.keys, condition=z, **known)
        objective.loss(pairs).backward()
        queue.write(keys[0], filled[:n], z)

    found = seconds_of({"infonce": lambda: step(infonce), "cclk": lambda: step(cclk)}, 5)
    return [
        f"\nOver a queue of {options.queue:,} with {c} numbers as condition, as `moco_v2` keeps it:"
        f" the loss of {n} anchors, its gradient, and",
        f"writing keys take {1000 * found['cclk']:.0f} ms with `fair_cclk` and `cosine`,"
        f" {1000 * found['infonce']:.0f} ms with `infonce`, {found['cclk'] / found['infonce']:.1f} times.",
    ]


if __name__ == "__main__":
    main()

"""The processor time of each sampler: to build it, to begin an epoch, and for a batch.

On conditions of ten million rows, in one process.  ``python docs/evidence/benchmarks/samplers.py
--quick`` shows that it works; without ``--quick``, the table is written to ``docs/evidence/benchmarks``.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from pages import parser, publish

from ccl_plugins.kernels import RBF, Cosine
from ccl_plugins.samplers import ConditionalPair, Imbalanced, SameCondition, Uniform
from ccl_plugins.samplers.conditional_pair import TOGETHER

Case = tuple[str, str, Callable[[], Any]]


def main() -> None:
    """Measure every sampler, show the page, and write it unless asked to be quick."""
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    rows = [measure(case, options) for case in cases(options)]
    publish(page(rows, options), "samplers.md", options)


def parse() -> argparse.Namespace:
    """The options of the command line."""
    command = parser(__doc__, "100,000 rows")
    command.add_argument("--rows", type=int, default=10_000_000)
    command.add_argument("--batch", type=int, default=256)
    command.add_argument("--batches", type=int, default=200, help="batches to average over")
    command.add_argument("--threads", type=int, default=1)
    options = command.parse_args()
    if options.quick:
        options.rows, options.batches = 100_000, 20
    return options


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """The names of a sampler and its condition, and a function that makes the sampler."""
    size = options.rows
    common = {"size": size, "batch_size": options.batch, "seed": 0}

    yield "uniform", "none", lambda: Uniform(**common)
    for classes in (10, 1000):
        ids = torch.randint(classes, (size,))
        name = f"{classes} classes"
        yield (
            "same_condition",
            name,
            lambda ids=ids: SameCondition("repeat", condition=ids, **common),
        )
        yield "conditional_pair", name, lambda ids=ids: ConditionalPair(condition=ids, **common)
        yield "imbalanced", name, lambda ids=ids: Imbalanced(condition=ids, **common)
    ids = torch.randint(size // 4, (size,))
    yield (
        "conditional_pair",
        f"{size // 4:,} classes",
        lambda: ConditionalPair(condition=ids, **common),
    )
    yield (
        "conditional_pair, rbf(1.0)",
        f"{size // 4:,} classes",
        lambda: ConditionalPair(kernel=RBF(1.0), condition=ids, **common),
    )
    for columns, rows in ((1, size), (3, size // 100), (3, size)):
        values = torch.rand(rows, columns)
        name = "1 number" if columns == 1 else f"{columns} numbers"
        name += "" if rows == size else f", {rows:,} rows"
        for scale in (0.1, 0.001, 1e-5):
            yield (
                f"conditional_pair, rbf({scale})",
                name,
                lambda scale=scale, values=values: ConditionalPair(
                    kernel=RBF(scale), condition=values, **{**common, "size": len(values)}
                ),
            )
        yield (
            "conditional_pair, nearest=10",
            name,
            lambda values=values: ConditionalPair(
                nearest=10, condition=values, **{**common, "size": len(values)}
            ),
        )
    small = {**common, "size": size // 100}
    features = torch.randn(size // 100, 512) + 0.5
    yield (
        "conditional_pair, cosine",
        f"512 numbers, {size // 100:,} rows",
        lambda: ConditionalPair(kernel=Cosine(), condition=features, **small),
    )
    yield (
        "conditional_pair, nearest=10",
        f"512 numbers, {size // 100:,} rows",
        lambda: ConditionalPair(nearest=10, condition=features, **small),
    )


def measure(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds to build and to begin an epoch, and the mean seconds of a batch."""
    name, condition, make = case
    start = time.process_time()
    sampler = make()
    built = time.process_time()
    batches = sampler.batches(0)
    next(batches)
    begun = time.process_time()
    # Partners of several batches are drawn at once: batches that the first draw covers do not count.
    together = min(max(1, TOGETHER // options.batch), len(sampler) - 1)
    for _ in itertools.islice(batches, together - 1):
        pass
    times = []
    for _ in itertools.islice(range(options.batches), len(sampler) - together):
        before = time.process_time()
        next(batches)
        times.append(time.process_time() - before)
    found = {
        "name": name,
        "condition": condition,
        "build": built - start,
        "begin": begun - built,
        "batch": statistics.mean(times),
    }
    print(found, flush=True)
    return found


def page(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The page with the table."""
    whole = [row for row in rows if not row["condition"].endswith(" rows")]
    several = [1e3 * row["batch"] for row in whole if row["condition"] == "3 numbers"]
    quick = [1e3 * row["batch"] for row in whole if row["condition"] != "3 numbers"]
    built = max(row["build"] for row in whole)
    slowest = max(rows, key=lambda row: row["batch"])
    lines = [
        "# What samplers cost",
        "",
        f"**A sampler of {options.rows:,} rows is built in at most {built:.1f} s."
        f" A batch takes at most {max(quick):.1f} ms by classes or one number,",
        f"{min(several):.1f} to {max(several):.1f} ms by three numbers.** The slowest batch takes"
        f" {1e3 * slowest['batch']:.0f} ms: `{slowest['name']}` by {slowest['condition']}.",
        "",
        "| sampler | condition | build (s) | begin an epoch (s) | batch (ms) |",
        "|---|---|---|---|---|",
        *(
            f"| {row['name']} | {row['condition']} | {row['build']:.2f} | {row['begin']:.2f}"
            f" | {1e3 * row['batch']:.3f} |"
            for row in rows
        ),
        "",
        f"The condition has {options.rows:,} rows unless the table says otherwise; batches have"
        f" {options.batch} samples. The numbers are",
        f"processor time of {options.threads} thread; torch {torch.__version__}, {platform.machine()}. A"
        " run whose condition is not refreshed builds its",
        f"sampler once. The time of a batch is the mean of {options.batches}, after those whose partners"
        " the first draw covers; in them",
        "`same_condition` still shuffles each value and `nearest` still searches. Most of it is random"
        " access to memory,",
        "which on a virtual machine with other work differs by half between runs. Written by"
        " `python docs/evidence/benchmarks/samplers.py`.",
        "",
        "Every sampler draws exactly from its distribution. Partners by several numbers take most, since no"
        " order puts all neighbors side by",
        "side:",
        "",
        "- By a kernel of the distance of one to three numbers: candidates come from boxes around each"
        " anchor, which are small where much",
        "  weight may be. A batch takes longest where a few to a few thousand samples share the weight, and"
        " less under wider and narrower",
        "  kernels.",
        "- By other kernels, or for more numbers: candidates come from all samples until one is accepted,"
        " which takes longer the fewer",
        "  samples are similar.",
        "- The nearest: a tree finds them by up to 15 numbers, a comparison with all samples by more."
        " They are remembered: from the",
        "  second epoch on a batch takes as long as for one number.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

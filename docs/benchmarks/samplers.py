"""The processor time each sampler takes to build, to begin an epoch, and for a batch.

On conditions of ten million rows, in one process; a run whose condition is not refreshed builds its
sampler once.  ``python docs/benchmarks/samplers.py --quick`` shows that it works; without it, the table is
written to ``docs/benchmarks``.
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
    command.add_argument("--batches", type=int, default=200, help="of which the mean is taken")
    command.add_argument("--threads", type=int, default=1)
    options = command.parse_args()
    if options.quick:
        options.rows, options.batches = 100_000, 20
    return options


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """A sampler and a condition, and how it is made."""
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
    """Seconds to build and to begin an epoch, and the mean of a batch."""
    name, condition, make = case
    start = time.process_time()
    sampler = make()
    built = time.process_time()
    batches = sampler.batches(0)
    next(batches)
    begun = time.process_time()
    # Partners of several batches are drawn at once: what the first has drawn for others does not count.
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
    """The table."""
    lines = [
        "# What samplers cost",
        "",
        f"A condition of {options.rows:,} rows unless it says another number, batches of {options.batch}.",
        f"Processor time of {options.threads} thread; torch {torch.__version__}, {platform.machine()}. A"
        " run whose condition",
        "is not refreshed builds its sampler once, and looks for the nearest of a sample once. Batches are"
        " the mean of the",
        f"first {options.batches}, in which `same_condition` shuffles each value. Most of it is random"
        " access to memory, which",
        "on a virtual machine, as here, differs by half between runs. Written by"
        " `python docs/benchmarks/samplers.py`.",
        "",
        "| sampler | condition | build (s) | begin an epoch (s) | batch (ms) |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['name']} | {row['condition']} | {row['build']:.2f} | {row['begin']:.2f}"
        f" | {1e3 * row['batch']:.3f} |"
        for row in rows
    ]
    lines += [
        "",
        "All of these draw exactly from the distribution that they say. Where batches take more than a"
        " millisecond, but for the",
        "first of a class of a million, it is for several numbers at once, which no order has side by side"
        " with all of their neighbors:",
        "",
        "- By a kernel of distance, for two or three numbers: from boxes around each sample. What is"
        " around neighbors is found",
        "  once and kept where memory allows; with ten million rows and a narrow kernel it does not, and is"
        " found in every draw.",
        "- By other kernels, or for more numbers: candidates are drawn from all samples until one is"
        " accepted, which takes the",
        "  longer the fewer samples are alike.",
        "- The nearest: by a tree for up to 15 numbers, among all samples for more. They are remembered,"
        " and from the second",
        "  epoch on a batch takes what it takes for one number.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""What the monitors of a run cost: epochs with and without them in turns, within one run.

An epoch of the examples has 5 steps, so that the default measures every fourth epoch: both kinds of epochs
meet the same machine.  ``python docs/evidence/benchmarks/monitors.py`` writes the page to
``docs/evidence/benchmarks``; with ``--quick`` it trains a few epochs and writes nothing.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from pages import parser, publish, span
from pytorch_lightning import Callback

import ccl_plugins as ccl

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = ("color_digits_infonce", "color_digits_fair")
CLOCKS = {"processor": time.process_time, "wall": time.perf_counter}


class Epochs(Callback):
    """The seconds of each epoch of this process, by clock."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {clock: [] for clock in CLOCKS}
        self._since: dict[str, float] = {}

    def on_train_start(self, *_: Any) -> None:
        """Start the clocks."""
        self._since = {name: clock() for name, clock in CLOCKS.items()}

    def on_train_epoch_end(self, *_: Any) -> None:
        """Note the epoch that ends, with its measurement."""
        for name, clock in CLOCKS.items():
            now = clock()
            self.seconds[name].append(now - self._since[name])
            self._since[name] = now


def main() -> None:
    """Train both examples, show the page, and write it unless asked to be quick."""
    command = parser(__doc__, "8 epochs")
    command.add_argument("--epochs", type=int, default=80, help="a multiple of 4")
    options = command.parse_args()
    if options.quick:
        options.epochs = 8
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    publish(page(options), "monitors.md", options)


def page(options: argparse.Namespace) -> str:
    """The table."""
    rows = [row(name, workers, options.epochs) for name in NAMES for workers in (0, 1)]
    lines = [
        "# What monitors cost\n",
        f"**With the default monitors a run takes {span(rows, 5)} times the processor time.**\n",
        "| example | workers | epoch without (ms) | with a measurement (ms) | processor time ratio"
        " | wall-clock ratio | share in the costs |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"Each row is one run of {options.epochs} epochs of 5 steps, in which monitors measure in every"
        " fourth epoch, as by default.",
        "A ratio is that of the whole run: one epoch with a measurement and three without, by four"
        " without; all are medians.",
        "With 0 workers the training process draws the views too. With 1 worker the time of the worker"
        " does not count.",
        "Processor time is that of the training process, with 1 thread. The machine was shared, so"
        " wall-clock ratios are rough.",
        "The last column is the monitors' share of the wall-clock time in `Run.costs`."
        f" {platform.machine()}, torch {torch.__version__}.",
        "Written by `python docs/evidence/benchmarks/monitors.py`.",
    ]
    return "\n".join(lines) + "\n"


def row(name: str, workers: int, epochs: int) -> str:
    """One run."""
    seen = Epochs()
    with tempfile.TemporaryDirectory() as folder:
        pipeline = ccl.Pipeline.from_toml(
            EXAMPLES / f"{name}.toml",
            changes=[(("evaluate",), [])],
            workers=workers,
            epochs=epochs,
            checkpoint_every=epochs,
            log_every=5,  # in every epoch, with and without
        )
        run = pipeline.fit(out=Path(folder) / "run", callbacks=[seen], progress=False)
        share = run.costs["monitors_share"]
    # Without the first turn, which loads, and the last, which writes the weights.
    kept = {clock: each[4:-4] or each for clock, each in seen.seconds.items()}
    on = {clock: statistics.median(each[3::4]) for clock, each in kept.items()}
    off = {
        clock: statistics.median([s for i, s in enumerate(each) if i % 4 != 3])
        for clock, each in kept.items()
    }
    ratios = " | ".join(f"{(on[clock] / off[clock] + 3) / 4:.3f}" for clock in CLOCKS)
    times = f"{1000 * off['processor']:.0f} | {1000 * on['processor']:.0f}"
    return f"| `{name}` | {workers} | {times} | {ratios} | {share:.1%} |"


if __name__ == "__main__":
    main()

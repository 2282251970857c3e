"""Check and measure the library on a GPU, in parts that can be stopped and continued.

  objectives  every installed objective: loss and gradient on the GPU against the CPU, float32 and bf16
  methods     every installed method: steps of training on the GPU against the CPU, float32 and bf16
  waits       a step of every objective and method, and of `fit`: a wait for the GPU is an error
  share       time and peak memory of every objective, and of a step of ResNet-50, ViT-S and ResNet-18
  whole       images/s of `fit` against lightly's example, with the same networks and data
  memory      a batch embedded whole and in pieces (GradCache): peak memory, images/s, the same gradient
  resume      a run that was killed and resumed, against one that was not
  adapt       a step of DINO with a ViT-B: all weights, LoRA, checkpointing; images/s and peak memory
  compiled    objectives and methods, compiled by inductor, against the CPU without compiling

Without PART it measures all of them, what is worth most first, in 12 minutes; of ``compiled`` five
rows, since all of them take ten minutes or more.  Each row is stored as soon as it is measured.  After
the minutes no row begins; called again, the script goes on with the rows that are missing.  The page is
written beside the rows.  On a machine without a GPU the same code runs at tiny sizes on the CPU, which
checks the script and measures nothing; rows are then stored only with `--out`.

Examples:
  python docs/evidence/benchmarks/gpu.py                       all parts; again, until nothing is missing
  python docs/evidence/benchmarks/gpu.py objectives waits      two parts
  python docs/evidence/benchmarks/gpu.py share --only infonce  one component
  python docs/evidence/benchmarks/gpu.py whole --only "views drawn"
  python docs/evidence/benchmarks/gpu.py --again               measure what failed once more
  python docs/evidence/benchmarks/gpu.py --page                write the page from the rows that are there
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from gpu_page import page
from gpu_parts import PARTS, Suite, suite_on

from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.testing.inputs import seeded

TOTAL = 12.0
"""Minutes after which no row begins."""

COMPILED = ("infonce", "supcon", "fair_cclk", "hcl", "simclr")
"""The components that are compiled unless all are asked for."""

Row = dict[str, Any]


class Rows:
    """The rows that were measured, in a file that is whole after each."""

    def __init__(self, path: Path | None, machine: dict[str, str]) -> None:
        self.path, self.machine = path, machine
        self.all: list[Row] = json.loads(path.read_text()) if path and path.exists() else []

    def here(self) -> list[Row]:
        """The rows of this machine's GPU and torch."""
        return [row for row in self.all if row.items() >= self.machine.items()]

    def find(self, part: str, name: str) -> Row | None:
        """A row of this machine, if it was measured."""
        found = (row for row in self.here() if (row["part"], row["name"]) == (part, name))
        return next(found, None)

    def add(self, part: str, name: str, found: Row) -> None:
        """Store a row in place of an earlier one, and write the page."""
        before = self.find(part, name)
        self.all = [row for row in self.all if row is not before]
        self.all.append({"part": part, "name": name, **self.machine, **found})
        self.write()

    def write(self) -> None:
        """Write rows and page."""
        if self.path:
            with atomic_write(self.path) as partial:
                partial.write_text(json.dumps(self.all, indent=1) + "\n")
            self.path.with_suffix(".md").write_text(page(self.all))


def asked_for(name: str, only: Collection[str]) -> bool:
    """Whether a row is asked for: by its name, by a word of it, or by what stands between its commas."""
    return not only or not {name, *name.replace(",", "").split(), *name.split(", ")}.isdisjoint(
        only
    )


def measured(
    part: str, suite: Suite, rows: Rows, only: Collection[str], until: float, again: bool
) -> list[str]:
    """Measure a part's rows that are missing; the names of those that still are."""
    missing = []
    for name, job in PARTS[part](suite):
        if not asked_for(name, only):
            continue
        before = rows.find(part, name)
        if before and not (again and before["state"] == "failed"):
            continue
        if time.monotonic() > until:
            missing.append(name)
            continue
        begin = time.monotonic()
        try:
            with seeded():
                found = job()
        except Exception as error:  # whatever a component raises is the result of its row
            found = failure(error)
        rows.add(part, name, found)
        how = ": ".join(filter(None, (found["state"], found.get("error"))))
        print(f"{part}: {name}: {how} ({time.monotonic() - begin:.1f} s)", flush=True)
        if suite.device == "cuda":
            torch.cuda.empty_cache()
        if "CUDA error" in found.get("error", ""):
            sys.exit("The GPU takes no more work of this process: call the script again to go on.")
    return missing


def failure(error: Exception) -> Row:
    """The row of a job that raised."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return {"state": "failed", "error": "out of memory"}
    lines = str(error).strip().splitlines() or ["no message"]
    return {"state": "failed", "error": f"{type(error).__name__}: {lines[0]}"}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default"
    )
    command.add_argument(
        "--out", type=Path, help="file of the rows (default: gpu.json beside this script)"
    )
    command.add_argument(
        "--total", type=float, default=TOTAL, metavar="MINUTES", help="after which no row begins"
    )
    command.add_argument(
        "--minutes", type=float, default=TOTAL, help="after which a part begins no row"
    )
    command.add_argument("--device", choices=("cuda", "cpu"), help="default: a GPU if there is one")
    command.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="rows by their names, or by words of these",
    )
    command.add_argument("--all", action="store_true", help="compile every objective and method")
    command.add_argument("--again", action="store_true", help="measure rows that failed once more")
    command.add_argument("--page", action="store_true", help="write the page and measure nothing")
    options = command.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        command.error(f"no part {', '.join(map(repr, unknown))}: there are {', '.join(PARTS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, and say what still is; 1 if rows are missing or failed."""
    options = parse(arguments)
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Lightning would take the GPU
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no GPU here: torch.cuda.is_available() is False")
    warnings.filterwarnings("ignore")  # Lightning's about loaders, torch's about its debug mode
    path = options.out or Path(__file__).with_name("gpu.json")
    if device == "cpu" and not options.page:
        path = options.out
        print("No GPU: tiny sizes on the CPU, which checks this script and measures nothing.")
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    rows = Rows(path, {"device": name, "torch": torch.__version__})
    if options.page:
        rows.write()
        return 0
    suite, missing = suite_on(device), dict[str, list[str]]()
    end = time.monotonic() + 60 * options.total
    for part in options.parts or PARTS:
        only = options.only or (COMPILED if part == "compiled" and not options.all else ())
        until = min(end, time.monotonic() + 60 * options.minutes)
        missing[part] = measured(part, suite, rows, only, until, options.again)
    failed = [row for row in rows.here() if row["part"] in missing and row["state"] == "failed"]
    for row in failed:
        print(f"{row['part']}: {row['name']} failed: {row['error']}")
    for part, names in missing.items():
        if names:
            print(f"{part}: {len(names)} missing, from {names[0]!r} on; call the script again")
    return int(bool(failed or any(missing.values())))


if __name__ == "__main__":
    sys.exit(main())

"""Measures the memory of whole commands on tables of several sizes; writes ``large-tables.md``.

``--run N,C,P`` (as often as wanted) takes other numbers of samples, of columns of the condition and of
processes, as 10000000,512,2; ``--data DIR`` another folder for the files, of which that has 23 GB.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from pages import parser, publish, span

from ccl_plugins.conditions import Column
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.files import mapped
from ccl_plugins.files.tensors import read_tensors
from ccl_plugins.training.tables import Tables

FEATURES, TEST, BATCH, STEPS, CLASSES = 64, 2000, 256, 200, 1000
RUNS = ["2000,128,1", "500000,128,1", "2000000,128,1"]
KINDS = ("RssAnon", "RssFile")
"""The two kinds of memory in ``/proc``."""
TOML = """
dataset = {{use = "features", train = "{0}/train.safetensors", test = "{0}/test.safetensors"}}
backbone = {{use = "mlp", in_features = {1}, hidden = [64]}}
method = {{use = "simclr", hidden = 64, dim = 32, batch_norm = false}}
transform = "noise"
condition = {{use = "column", name = "z"}}
evaluate = ["knn", "linear", "rankme"]
objective = {{use = "fair_cclk", kernel = {{use = "rbf", scale = {2}}}}}
fit = {{max_steps = {5}, batch_size = {3}, workers = 0, devices = {4}}}
"""


def write(folder: Path, rows: int, width: int) -> None:
    """The files of the two splits, with random numbers."""
    generator = torch.Generator().manual_seed(0)
    for name, size in (("train", rows), ("test", min(rows, TEST))):
        widths = {"features": FEATURES, "z": width}
        shapes = {each: ((size, columns), torch.float32) for each, columns in widths.items()}
        file = folder / f"{name}.safetensors"
        with mapped.writing(file, {**shapes, "label": ((size,), torch.int64)}) as tensors:
            for part in mapped.blocks(tensors["z"]):
                count = part.stop - part.start
                for each, columns in widths.items():
                    tensors[each][part] = torch.randn(count, columns, generator=generator)
                tensors["label"][part] = torch.randint(0, 10, (count,), generator=generator)


def peaks(folder: Path, width: int, processes: int = 1) -> dict[str, list[Memory]]:
    """What each process of ``ccl train`` and then of ``ccl report`` had in memory at most."""
    file, runs = folder / "run.toml", folder / "runs"
    file.write_text(TOML.format(folder, FEATURES, 2.0 * width, BATCH, processes, STEPS))
    return {
        "train": _peaks("train", file, "--out", runs, "--overwrite")[:processes],
        "report": _peaks("report", runs / "run", "--out", folder / "report.html")[:1],
    }


class Memory(NamedTuple):
    """MB that a process had at most."""

    anonymous: int
    """Its own, which the system cannot take back."""
    mapped: int
    """Of files, whose pages the system drops if it needs room."""


def _peaks(*arguments: object) -> list[Memory]:
    """Those of a command's processes, the largest first."""
    most: dict[str, Memory] = {}
    command = [sys.executable, "-m", "ccl_plugins", *map(str, arguments)]
    with subprocess.Popen(command) as run:
        while run.poll() is None:
            for status in Path("/proc").glob("[0-9]*/status"):
                with contextlib.suppress(OSError, KeyError):
                    known = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
                    if {known["Pid"], known["PPid"]} & {str(run.pid), *most}:
                        now = (int(known[kind].split()[0]) // 1024 for kind in KINDS)
                        before = most.get(known["Pid"], (0, 0))
                        most[known["Pid"]] = Memory(*map(max, now, before))
            time.sleep(0.05)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {run.returncode}")
    return sorted(most.values(), reverse=True)


def compare(folder: Path, shape: tuple[int, ...], value_type: str) -> str:
    """Two lines about a condition in memory and in a file."""
    file = folder / "z.safetensors"
    dtype = torch.float32 if len(shape) > 1 else torch.int64
    with mapped.writing(file, {"z": (shape, dtype)}) as tensors:
        for part in mapped.blocks(tensors["z"]):
            size = (part.stop - part.start, *shape[1:])
            drawn = torch.randn(size) if len(shape) > 1 else torch.randint(0, CLASSES, size)
            tensors["z"][part] = drawn
    in_file = read_tensors(file)[0]["z"]
    (a, b), (c, d) = (table(each, value_type) for each in (in_file.clone(), in_file))
    what = f"{shape[0]:,} x {shape[1]} numbers" if len(shape) > 1 else f"{shape[0]:,} class ids"
    return (
        f"| {what} | fit | {a:.2f} s | {c:.2f} s | {c / a:.1f} |\n"
        f"| | look-up | {b:.2f} ms | {d:.2f} ms | {d / b:.1f} |"
    )


def table(values: torch.Tensor, value_type: str) -> tuple[float, float]:
    """Seconds to fit and check a condition's table, and ms to look up a batch."""
    label = torch.zeros(len(values), dtype=torch.uint8)
    split = Annotated(range(len(values)), {"label": label, "z": values})
    condition = Column("z", value_type=value_type)  # type: ignore[arg-type]
    tables = Tables({"z": condition}, len(values))
    begun = time.perf_counter()
    tables.refresh(0, split, torch.zeros)
    fitted = time.perf_counter() - begun
    index = torch.randint(len(values), (200, BATCH))
    return fitted, 1e3 * statistics.median(timed(lambda i=i: tables.look_up(i)) for i in index)


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main() -> None:
    """Measure, and write the page."""
    made = parser(__doc__, "a few samples")
    made.add_argument("--run", action="append", default=[])
    made.add_argument("--data", type=Path)
    options = made.parse_args()
    runs, table_rows, ids = options.run or RUNS, 1 << 20, 10**8
    if options.quick:
        runs, mapped.LARGE = ["4000,128,1"], 0
        table_rows = ids = 4000
    lines, own = [], []
    for each in runs:
        rows, width, processes = map(int, each.split(","))
        with tempfile.TemporaryDirectory(dir=options.data) as name:
            folder = Path(name)
            write(folder, rows, width)
            size = (folder / "train.safetensors").stat().st_size / 1e6
            found = peaks(folder, width, processes)
        own.append((rows, found["train"][0].anonymous))
        cells = [
            " and ".join(f"{memory[kind]:,}" for memory in found[command])
            for command in ("train", "report")
            for kind in (0, 1)
        ]
        lines.append(f"| {rows:,} | {width} | {size:,.0f} MB | {processes} | {' | '.join(cells)} |")
    with tempfile.TemporaryDirectory(dir=options.data) as name:
        tables = [
            compare(Path(name), (table_rows, 128), "continuous"),
            compare(Path(name), (ids,), "categorical"),
        ]
    least, most = min(own), max(own)
    fits, looks = zip(*(each.split("\n") for each in tables), strict=True)
    report = f"""# Tables larger than memory

**`ccl train` on {most[0]:,} samples takes {most[1]:,} MB of its own memory, on {least[0]:,} samples {least[1]:,} MB.** A condition in a file
is fitted in {span(fits, 5)} times the time of one in memory; looking up a batch takes {span(looks, 5)} times the time.

MB of memory at most:

| samples | condition | on disk | processes | train: anonymous | mapped | report: anonymous | mapped |
|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

Each kind of memory by itself, of whole commands: `ccl train` on vectors of {FEATURES} numbers with a condition in a file, and
`ccl report` of the run. Fair-CCLK with `rbf`, {STEPS} batches of {BATCH}; `knn`, `linear` and `rankme` fitted to all samples before and
after training and measured on {TEST:,} at most; default monitors and pictures; {os.cpu_count()} cores. Anonymous memory is the process's own.
Mapped memory is of files, libraries among them; the system drops its pages if it needs room.

A condition in a file, beside one in memory: fitted and checked, and {BATCH} random rows looked up.

| | | memory | file | ratio |
|---|---|---|---|---|
{chr(10).join(tables)}

torch {torch.__version__}; written by `python docs/evidence/benchmarks/large_tables.py`.
"""  # noqa: E501  a page
    publish(report, "large-tables.md", options)


if __name__ == "__main__":
    main()

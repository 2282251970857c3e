"""Measures what a sample costs, and writes ``docs/explanation/scale.md``: what a million to a billion take.

``--data`` is a folder for a file of 2 GB; ``--images-per-second`` what one of your devices trains.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from pages import parser, publish
from PIL import Image
from storage import drop_caches

import ccl_plugins as ccl
from ccl_plugins.evaluators.knn import nearest as vote
from ccl_plugins.files import mapped
from ccl_plugins.files.fingerprints import of_parts
from ccl_plugins.files.tensors import read_tensors
from ccl_plugins.metadata.fitted import nearest
from ccl_plugins.metadata.variable import check_values
from ccl_plugins.samplers import Uniform
from ccl_plugins.training.loader import Items

SAMPLES = (10**6, 10**7, 10**8, 10**9)
DEVICES = (1, 8, 64)
TIMES = ((10**6, 1), (10**7, 1), (10**7, 8), (10**8, 8), (10**8, 64), (10**9, 64))
"""The numbers of samples and of devices whose times are shown."""
PER_NODE, WORKERS = 8, 12
"""Devices of a machine, and processes that load images for each."""

BATCH, EMBEDDING, CONDITION, FEATURES, CLUSTERS, TEST = 4096, 128, 512, 768, 10_000, 10_000
"""The global batch; numbers in an embedding, a condition and the features; clusters; test samples."""


HELD = 17
"""Bytes that a process holds of each sample: a label, its place in the order, whether it is left out."""

RAN = "1.8 GB of memory for each process and 5 minutes to the first steps"


def seconds(call: Callable[[], object], times: int = 3) -> float:
    """The least time of some calls."""
    least = float("inf")
    for _ in range(times):
        begun = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - begun)
    return least


class Photos:
    """JPEG images of 256 x 256 pixels."""

    def __init__(self, count: int) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).resize((256, 256)).save(buffer, "JPEG", quality=90)
        self.encoded = [buffer.getvalue()] * count

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.open(io.BytesIO(self.encoded[index])).convert("RGB"), 0


def measured(folder: Path | None, quick: bool) -> dict[str, float]:
    """What this machine takes, by name."""
    found: dict[str, float] = {}
    torch.set_num_threads(1)
    count = 8 if quick else 128
    items = Items(Photos(count), ccl.create("transform", "simclr", size=224), 0)
    keys = [(0, i, i) for i in range(count)]
    found["images"] = count / seconds(lambda: items.__getitems__(keys), 2)
    torch.set_num_threads(os.cpu_count() or 1)
    rows = 10_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory(dir=folder) as name:
        file = Path(name) / "z.safetensors"
        with mapped.writing(file, {"z": ((rows, CONDITION), torch.float32)}) as tensors:
            for part in mapped.blocks(tensors["z"]):
                tensors["z"][part] = torch.rand(part.stop - part.start, CONDITION)
        size = file.stat().st_size
        drop_caches()
        found["disk"] = size / seconds(lambda: _read(file), 1)
        z = read_tensors(file)[0]["z"]
        found["check"] = size / seconds(lambda: check_values("z", z, "continuous", rows), 2)
        found["fingerprint"] = size / seconds(lambda: of_parts(z), 2)
        drop_caches()
        some = torch.randint(rows, (min(rows, 2000),))
        found["row"] = seconds(lambda: mapped.rows(z, some), 1) / len(some)
        found["warm row"] = seconds(lambda: mapped.rows(z, some)) / len(some)
    n, k = (1000, 100) if quick else (50_000, CLUSTERS)
    x, centroids = torch.rand(n, EMBEDDING), torch.rand(k, EMBEDDING)
    found["flops"] = 2 * n * k * EMBEDDING / seconds(lambda: nearest(x, centroids))
    bank, queries = torch.rand(n, FEATURES), torch.rand(min(n, 500), FEATURES)
    ids = torch.arange(n) % 10
    found["neighbors"] = n * len(queries) / seconds(lambda: vote(queries, bank, ids, 20, 0.1), 2)
    sampler = Uniform(size=10 * rows, batch_size=BATCH, seed=0)
    found["order"] = seconds(lambda: next(iter(sampler.batches(0)))) / (10 * rows)
    path = "/data/photos/train/0123456/000123456.jpg"
    found["path"] = sys.getsizeof(path) + 8
    return found


def _read(file: Path) -> None:
    with file.open("rb", buffering=0) as opened:
        while opened.read(1 << 24):
            pass


def size_of(number: float) -> str:
    """Bytes, in a unit that suits."""
    return amount(number, "")


def amount(number: float, of: str) -> str:
    """A large number with its unit; bytes without one."""
    steps = ("bytes", "kB", "MB", "GB", "TB") if not of else ("", "thousand", "million", "billion")
    for step in steps:
        if number < 1000 or step == steps[-1]:
            return " ".join(word for word in (f"{number:,.3g}", step, of) if word)
        number /= 1000
    raise AssertionError


def duration(number: float) -> str:
    """Seconds, in a unit that suits."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if number >= length:
            return f"{number / length:,.3g} {unit}"
    return f"{1e3 * number:,.0f} ms"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(known: dict[str, float], speed: float, cold: bool) -> str:
    """The page, from what was measured and the images per second that a device trains."""
    cores, partly = os.cpu_count(), "" if cold else " (partly from memory)"
    measured = [
        [
            "a core decodes an image of 256 x 256 pixels and makes two views of 224",
            known["images"],
            "images",
        ],
        [f"the disk, one after another{partly}", known["disk"], ""],
        ["values of a table are checked", known["check"], ""],
        ["their fingerprint", known["fingerprint"], ""],
        [f"rows of {CONDITION} numbers at random, from the disk", 1 / known["row"], "rows"],
        ["the same from memory", 1 / known["warm row"], "rows"],
        ["nearest of many points, as clusters need", known["flops"], "operations"],
        [f"neighbors in {FEATURES} numbers, by `knn`", known["neighbors"], "pairs"],
        ["samples of a shuffled order", 1 / known["order"], "samples"],
    ]
    rates = [[str(what), amount(float(rate), str(of))] for what, rate, of in measured]

    def start(n: int) -> float:
        passes = 3 / known["disk"] + 2 / known["check"] + 1 / known["fingerprint"]
        return n * CONDITION * 4 * passes

    def neighbors(n: int) -> str:
        return duration(n * TEST / known["neighbors"])

    memory = [
        [
            f"{n:,}",
            size_of(HELD * n),
            size_of(known["path"] * n),
            duration(known["order"] * n),
            size_of(CONDITION * 4 * n),
            duration(start(n)),
        ]
        for n in SAMPLES
    ]
    read = min(speed, WORKERS * known["images"])
    times = [
        [
            f"{n:,}",
            str(devices),
            duration(n / (devices * read)),
            duration(n * CLUSTERS * EMBEDDING * 2 / (known["flops"] * devices)),
            neighbors(n),
        ]
        for n, devices in TIMES
    ]
    columns = ("columns and order", "paths", "shuffling", "condition, disk", "start-up")
    in_memory = table(("samples", *columns), memory)
    in_time = table(
        ("samples", "devices", "a pass", f"{CLUSTERS:,} clusters", f"kNN of {TEST:,}"), times
    )
    of_step = [
        f"{size_of(BATCH / k * 2 * BATCH * 4 * 3)} on each of {k} devices" for k in DEVICES[1:]
    ]
    in_step = f"{size_of(BATCH * 2 * BATCH * 4 * 3)} on one device, {' and '.join(of_step)}"
    few, many, most = SAMPLES[1:]
    gathered = size_of(2 * BATCH * EMBEDDING * 4)
    loading, ratio = f"{speed / known['images']:,.0f}", f"{known['path'] / HELD:.0f}"
    paths, all_paths = (size_of(k * many * known["path"]) for k in (1, PER_NODE))
    held = size_of(most * HELD)
    order, began = duration(most * known["order"]), duration(start(most))
    condition, ids = size_of(CONDITION * 4 * most), size_of(8 * most)
    return f"""# What a million to a billion samples take

Most numbers are computed from rates that were measured on {cores} cores, for devices that train {speed:,.0f} images a second.
`python docs/evidence/benchmarks/scale.py --images-per-second 3000` writes the page for your machine. Two things were run:
{few:,} samples with a condition of {CONDITION} numbers and two processes, in {RAN};
and [whole commands on up to 2,000,000 samples](../evidence/benchmarks/large-tables.md).

- **{few:,} samples: measuring takes long.** `knn` on all training samples takes {neighbors(few)} for {TEST:,} test samples. Measure
  a part: `dataset = {{use = "subset", ...}}`. Training may wait for images: count the cores.
- **{many:,}: lists of paths take memory**, {paths} in each process and {all_paths} on a machine with {PER_NODE} processes. Keep images in Arrow
  files (`hf`), which [need no list](../evidence/benchmarks/storage.md).
- **{most:,}: the order and every pass take long.** Columns and order take {held} in each process, and the order {order} to shuffle
  before each epoch. A condition takes {condition} of disk and {began} until the first step; class ids take {ids}. `max_steps` ends a run
  within the first epoch.
- **Clusters** are found on `samples` samples, and all others are assigned to them; `every = 5` repeats this every five epochs.

{table(("measured", "a second"), rates)}

## Memory and disk

Each process holds {HELD} bytes of each sample. A list of paths (`image_folder`, `table`) takes {ratio} times as much. Everything else
above 64 MB is in files: for each sample {size_of(CONDITION * 4)} for a condition of {CONDITION} numbers, {size_of(EMBEDDING * 4)} for an embedding of {EMBEDDING}, and {size_of(FEATURES * 4)}
for features of {FEATURES}.

{in_memory}

With {PER_NODE} processes, a machine holds {PER_NODE} times the second and third columns. Start-up is the time in which the first process reads,
checks and fingerprints the condition. A checkpoint names tables and does not grow with the samples.

## Time

The times of a pass over all images, of finding the nearest of {CLUSTERS:,} clusters on all devices, each as fast as this machine's
processor, and of the nearest neighbors of {TEST:,} test samples on the first process:

{in_time}

A device needs {loading} cores that load images; with fewer, a pass takes longer.

## Network, and memory of a step

In each step every process receives {gathered} for {BATCH:,} samples of {EMBEDDING} numbers and two views, and compares its own anchors with
all keys. A contrastive loss then takes {in_step}.
"""  # noqa: E501  a page


def main() -> None:
    """Measure, and write the page."""
    made = parser(__doc__, "few samples")
    made.add_argument("--data", type=Path)
    made.add_argument("--images-per-second", type=float, default=1500)
    options = made.parse_args()
    if options.out == Path(__file__).parent:
        options.out = options.out.parents[1] / "explanation"
    known = measured(options.data, options.quick)
    publish(page(known, options.images_per_second, drop_caches()), "scale.md", options)


if __name__ == "__main__":
    main()

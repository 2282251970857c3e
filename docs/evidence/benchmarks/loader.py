"""Images per second of the loader beside a DataLoader with lightly's transform; writes ``loader.md``.

Two SimCLR views of each image, on the CPU.  The loaders read the same images in turns, since other
work on the machine slows all.  With ``--quick`` it reads few
images and writes nothing.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightly.transforms import SimCLRTransform
from pages import parser, publish, span
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import to_pil_image

import ccl_plugins as ccl
from ccl_plugins.datasets import InMemory
from ccl_plugins.samplers import Uniform
from ccl_plugins.training.loader import Items, Loader, augment
from ccl_plugins.training.sampling import Batches, Consumed


class Case(NamedTuple):
    """Images, where they are, and how many are read in a turn."""

    place: str
    size: int
    images: int
    batch: int


CASES = (Case("memory", 32, 512, 128), Case("files", 96, 256, 64), Case("memory", 224, 64, 32))
LOADERS = ("lightly", "ours", "batched")
Pass = Callable[[], Iterator[Any]]


class Plain(Dataset[Any]):
    """Images as torchvision's data sets give them to lightly's transform."""

    def __init__(self, split: Any, size: int) -> None:
        self.split, self.transform = split, SimCLRTransform(input_size=size)

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> Any:
        image, target = self.split[index]
        return self.transform(to_pil_image(image) if isinstance(image, Tensor) else image), target


def main() -> None:
    """Measure, print the page, and write it unless ``--quick`` is given."""
    options = options_of()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows = [row(case, workers, options) for case in CASES for workers in (0, 2)]
    lines = [
        "# What the loader costs\n",
        f"**Ours reads {span(rows, 5)} times as many images a second as torch's loader; with views of a"
        f" whole batch {span(rows, 7)} times, most with small images.**\n",
        "Images per second, two SimCLR views of each:\n",
        "| images | workers | lightly | ours | ratio | batched | ratio |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "Three loaders read the same images in turns: torch's `DataLoader` with lightly's"
        " `SimCLRTransform`, ours with `simclr`, and ours with `simclr` and"
        " `batched = true`, whose views",
        "are drawn in the main process, here on the CPU with one thread. The files are JPEGs of the size of"
        " the views.",
        "Without workers it is processor time, with two of them wall-clock time on 2 cores that had other"
        " work too: the ratios count,",
        f"not the rates. Medians of {options.turns} turns; torch {torch.__version__},"
        f" {platform.machine()}.",
        "Written by `python docs/evidence/benchmarks/loader.py`.",
    ]
    publish("\n".join(lines) + "\n", "loader.md", options)


def options_of() -> argparse.Namespace:
    """Read the command line."""
    command = parser(__doc__, "few images")
    command.add_argument("--turns", type=int, default=5)
    options = command.parse_args()
    if options.quick:
        options.turns = 1
    return options


def row(case: Case, workers: int, options: argparse.Namespace) -> str:
    """The line of a case."""
    if options.quick:
        case = case._replace(images=case.batch)
    # Of workers the main process does not know the processor time while they run.
    clock = time.perf_counter if workers else time.process_time
    with tempfile.TemporaryDirectory() as folder:
        split = images(case, Path(folder))
        passes = {name: make(name, split, case, workers) for name in LOADERS}
        seconds: dict[str, list[float]] = {name: [] for name in LOADERS}
        for turn in range(options.turns + 1):  # the first starts the workers
            for name in LOADERS if turn % 2 else LOADERS[::-1]:
                start = clock()
                for _ in passes[name]():
                    pass
                seconds[name].append(clock() - start)
    kept = {name: each[1:] for name, each in seconds.items()}
    rate = {name: case.images / statistics.median(each) for name, each in kept.items()}
    ratio = {name: rate[name] / rate["lightly"] for name in LOADERS[1:]}
    return (
        f"| {case.place}, {case.size} x {case.size} | {workers} | {rate['lightly']:,.0f}"
        f" | {rate['ours']:,.0f} | {ratio['ours']:.2f} | {rate['batched']:,.0f}"
        f" | {ratio['batched']:.2f} |"
    )


def images(case: Case, folder: Path) -> Any:
    """A split of smooth random images, in memory or in files."""
    small = torch.rand(case.images, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(small, (case.size, case.size), mode="bilinear")
    pixels = smooth.mul(255).byte()
    labels = torch.arange(case.images) % 2
    if case.place == "memory":
        return InMemory(pixels, labels, {"label": labels})
    for number, image in enumerate(pixels):
        for part in ("train", "test"):
            path = folder / part / "ab"[number % 2] / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            if part == "train" or number < 2:
                to_pil_image(image).save(path, quality=90)
    return ccl.create("dataset", "image_folder", root=str(folder))("train")


def make(name: str, split: Any, case: Case, workers: int) -> Pass:
    """An epoch of a loader."""
    if name == "lightly":
        theirs: DataLoader[Any] = DataLoader(
            Plain(split, case.size),
            case.batch,
            shuffle=True,
            drop_last=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(theirs)
    transform = ccl.create("transform", "simclr", size=case.size, batched=name == "batched")
    items = Items(split, transform, 0, batched=name == "batched")
    sampler = Uniform(size=case.images, batch_size=case.batch, seed=0)
    ours = Loader(items, Batches(lambda: sampler, Consumed(), case.batch), workers, False)
    return lambda: (augment(transform, batch) for batch in ours)


if __name__ == "__main__":
    main()

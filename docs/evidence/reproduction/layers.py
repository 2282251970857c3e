"""What each layer of LeNet-5 tells of digit and color, in the runs that a sweep has left.

``python docs/evidence/reproduction/layers.py color_mnist`` reads the runs of the sweep
``examples/reproduction/color_mnist.toml`` and writes
``examples/reproduction/results/color_mnist_layers.json``; ``pages.py color_mnist_layers`` then writes the
tables. ``--only LABEL`` takes the configurations of this label, and can be repeated.

The probes are the built-in evaluators. They are fitted to at most 10,000 training images, since 60,000 rows
of 400 features take a minute each, and measured on the whole test split.
"""

from __future__ import annotations

import argparse

import torch
from pages import EXPERIMENTS, record
from torch import Tensor, nn

import ccl_plugins as ccl
from ccl_plugins.protocols.evaluator import Frozen
from ccl_plugins.sweep import SEED, Sweep, cells_of, labels_of

LAYERS = {"convolution, 400": 4, "linear, 120": 6, "features, 84": 8}
"""By its name, the place in the network of the last module of a layer."""
PROBES = (
    ccl.evaluator("linear"),
    ccl.evaluator("regression", column="color"),
    ccl.evaluator("mlp", column="color", epochs=10),
)
MOST = 10_000
Plain = list[tuple[Tensor, dict[str, Tensor]]]
"""Images and columns of the training and the test split."""


def measure(layers: nn.Sequential, plain: Plain) -> dict[str, dict[str, float]]:
    """By layer, what the probes read of the test split."""
    made = {}
    for name, place in LAYERS.items():
        with torch.no_grad():
            train, test = (
                Frozen(
                    torch.cat([layers[: place + 1](x) for x in images.split(1000)]).flatten(1),
                    metadata,
                )
                for images, metadata in plain
            )
        made[name] = {
            each.name: each.value for probe in PROBES for each in probe.build()(train, test)
        }
    return made


def splits_of(run: ccl.Run) -> Plain:
    """Images, prepared without augmentation, and columns."""
    made = []
    for split in run.splits:
        # Drawn, since the images of a split may be in the order of their classes.
        rows = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))[:MOST]
        images = run.transform.plain(torch.stack([split[row][0] for row in rows.tolist()]))
        made.append((images, {name: column[rows] for name, column in split.metadata.items()}))
    return made


def main() -> None:
    """Measure the runs and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "experiment", help="the name of a file in examples/reproduction, without .toml"
    )
    parser.add_argument("--only", metavar="LABEL", action="append", help="a configuration's label")
    given = parser.parse_args()
    sweep = Sweep.from_toml(EXPERIMENTS / f"{given.experiment}.toml")
    cells = cells_of(sweep)
    found: dict[str, dict[str, dict[int, float]]] = {}
    for cell, label in zip(cells, labels_of([each.values for each in cells]), strict=True):
        if given.only and label not in given.only:
            continue
        run = ccl.load(sweep.out / "cells" / cell.name)
        print(cell.name, label, flush=True)
        for layer, metrics in measure(run.backbone.eval().layers, splits_of(run)).items():
            for metric, value in metrics.items():
                by_seed = found.setdefault(f"{label}: {layer}", {}).setdefault(metric, {})
                by_seed[cell.values[SEED]] = value
    record(f"{given.experiment}_layers", found)


if __name__ == "__main__":
    main()

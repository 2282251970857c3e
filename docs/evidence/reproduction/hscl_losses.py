"""Compute UCL, H-UCL, SCL and H-SCL of one fixed encoder (figure 4), and both sides of assumption 1.

``python docs/evidence/reproduction/hscl_losses.py`` reads the runs of H-UCL with beta 1 that the sweep
``examples/reproduction/hscl.toml`` has left, and writes
``examples/reproduction/results/hscl_losses.json``.  ``pages.py hscl_losses`` then writes the tables.

Losses are means over the training split, in batches of 500 pairs of augmented views, in evaluation mode.
Assumption 1 compares, for each anchor, the means of ``e^g`` over the samples of its class and over those of
other classes, among the samples with ``e^g`` at or above the mean over all: the threshold of lemma 5.2.
"""

from __future__ import annotations

import statistics

import torch
from pages import EXPERIMENTS, record
from torch import Tensor
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.sweep import Sweep, cells_of

BETAS = (0.1, 0.5, 1.0, 5.0)
BATCH = 500
TEMPERATURE = 0.5


def embed(run: ccl.Run) -> tuple[Tensor, Tensor]:
    """Unit projections (2, N, d) of two views of each training sample in shuffled order, and its label."""
    torch.manual_seed(0)
    data, parts = run.splits[0], run.parts
    order = torch.randperm(len(data))
    both: list[list[Tensor]] = [[], []]
    with torch.no_grad():
        for rows in order.split(BATCH):
            views = zip(*(parts.transform(data[row][0]) for row in rows.tolist()), strict=True)
            for found, images in zip(both, views, strict=True):
                found.append(functional.normalize(parts.method.project(torch.stack(images)), dim=1))
    return torch.stack([torch.cat(each) for each in both]), data.targets[order]


def measure(z: Tensor, label: Tensor) -> dict[str, dict[str, float]]:
    """Each loss, and both sides of assumption 1, as means over the batches."""
    batches = list(zip(z.split(BATCH, 1), label.split(BATCH), strict=True))

    def mean(objective: str, **options: float) -> float:
        loss = ccl.objective(objective, temperature=TEMPERATURE, **options).build()
        given = [{"condition": y} if objective in ("scl", "hscl") else {} for _, y in batches]
        return statistics.fmean(
            float(loss(*each, **more)) for (each, _), more in zip(batches, given, strict=True)
        )

    found = {"UCL": {"loss": mean("ucl")}, "SCL": {"loss": mean("scl")}}
    for name, objective in (("H-UCL", "hucl"), ("H-SCL", "hscl")):
        for beta in BETAS:
            found[f"{name}: beta {beta:g}"] = {"loss": mean(objective, beta=beta)}
    sides = torch.cat([assumption(each, y) for each, y in batches])
    same, other = sides.mean(0).tolist()
    found["same class"] = {"e^g": same}
    found["other classes"] = {"e^g": other}
    found["anchors"] = {"share": float((sides[:, 0] >= sides[:, 1]).double().mean())}
    return found


def assumption(z: Tensor, label: Tensor) -> Tensor:
    """Both sides of assumption 1, (anchors that have both, 2)."""
    weight = (z[0] @ z[1].T / TEMPERATURE).exp()
    others = ~torch.eye(len(label), dtype=torch.bool)
    same = (label[:, None] == label) & others
    near = weight >= ((weight * others).sum(1) / others.sum(1))[:, None]
    sides = [(weight * m).sum(1) / m.sum(1) for m in (near & same, near & others & ~same)]
    both = torch.stack(sides, 1)
    return both[both.isfinite().all(1)]


def main() -> None:
    """Measure the runs and write the results."""
    sweep = Sweep.from_toml(EXPERIMENTS / "hscl.toml")
    by_seed = {
        cell.values["fit.seed"]: measure(*embed(ccl.load(sweep.out / "cells" / cell.name)))
        for cell in cells_of(sweep)
        if cell.values["objective"] == "hucl" and cell.values["objective.beta"] == 1.0
    }
    first = next(iter(by_seed.values()))
    found = {
        label: {m: {s: each[label][m] for s, each in by_seed.items()} for m in metrics}
        for label, metrics in first.items()
    }
    record("hscl_losses", found)


if __name__ == "__main__":
    main()

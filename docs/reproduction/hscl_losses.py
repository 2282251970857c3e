"""Compute UCL, H-UCL, SCL and H-SCL of one fixed encoder (figure 4), and both sides of assumption 1.

``python docs/reproduction/hscl_losses.py`` reads the three runs of H-UCL with beta 1 that the sweep
``examples/reproduction/hscl.toml`` has left, writes ``examples/reproduction/results/hscl_losses.csv`` and
the tables of ``hscl.md``.  It takes a minute.  Without the runs the page is written from the CSV file.

Losses are means over the training split, in batches of 500 pairs of augmented views, in evaluation mode.
Assumption 1 compares, for each anchor, the means of ``e^g`` over the samples of its class and over those of
other classes, among the samples with ``e^g`` at or above the mean over all: the threshold of lemma 5.2.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.pipeline.sweeps import Sweep
from ccl_plugins.runs.results import spread
from ccl_plugins.runs.sweep import cells_of

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "examples" / "reproduction"
FILE = EXPERIMENTS / "results" / "hscl_losses.csv"
PAGE = Path(__file__).parent / "hscl.md"
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
            views = zip(*(parts.views(data[row][0]) for row in rows.tolist()), strict=True)
            for found, images in zip(both, views, strict=True):
                found.append(functional.normalize(parts.method.project(torch.stack(images)), dim=1))
    return torch.stack([torch.cat(each) for each in both]), data.targets[order]


def measure(z: Tensor, label: Tensor) -> dict[str, float]:
    """The losses of each beta, and assumption 1, as means over the batches."""
    batches = list(zip(z.split(BATCH, 1), label.split(BATCH), strict=True))

    def mean(objective: str, **options: float) -> float:
        loss = ccl.objective(objective, temperature=TEMPERATURE, **options).build()
        given = [{"condition": y} if objective in ("scl", "hscl") else {} for _, y in batches]
        return statistics.fmean(
            float(loss(*each, **more)) for (each, _), more in zip(batches, given, strict=True)
        )

    found = {"UCL": mean("ucl"), "SCL": mean("scl")}
    for beta in BETAS:
        found[f"H-UCL {beta:g}"] = mean("hucl", beta=beta)
        found[f"H-SCL {beta:g}"] = mean("hscl", beta=beta)
    sides = torch.cat([assumption(each, y) for each, y in batches])
    found["same class"], found["other classes"] = sides.mean(0).tolist()
    found["anchors"] = float((sides[:, 0] >= sides[:, 1]).double().mean())
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


def tables(rows: list[Mapping[str, str]]) -> str:
    """The page's two tables, of means and deviations over the runs."""

    def cell(name: str) -> str:
        values = [float(row[name]) for row in rows]
        return spread(statistics.fmean(values), statistics.stdev(values))

    lines = ["| beta | UCL | H-UCL | SCL | H-SCL |", "|---|---|---|---|---|"]
    for beta in BETAS:
        names = ("UCL", f"H-UCL {beta:g}", "SCL", f"H-SCL {beta:g}")
        lines.append(f"| {beta:g} | " + " | ".join(map(cell, names)) + " |")
    lines += ["", "| mean of e^g, same class | other classes | anchors where same is larger |"]
    names = ("same class", "other classes", "anchors")
    lines += ["|---|---|---|", "| " + " | ".join(map(cell, names)) + " |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the CSV file, if there are runs, and the page."""
    sweep = Sweep.from_toml(EXPERIMENTS / "hscl.toml")
    if (sweep.out / "sweep.json").exists():
        rows = []
        for cell in cells_of(sweep):
            if cell.values.get("objective") == "hucl" and cell.values["objective.beta"] == 1.0:
                found = measure(*embed(ccl.load(sweep.out / "cells" / cell.name)))
                rows.append({"seed": cell.values["fit.seed"], **found})
        with FILE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    with FILE.open(newline="", encoding="utf-8") as file:
        text = tables(list(csv.DictReader(file)))
    block = re.compile(r"(<!-- losses -->\n).*?(<!-- end losses -->)", re.DOTALL)
    PAGE.write_text(block.sub(lambda match: match[1] + text + match[2], PAGE.read_text()))
    print(FILE)


if __name__ == "__main__":
    main()

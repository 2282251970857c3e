"""Cells of several donors: contrastive learning with batches of one donor, beside the usual integration.

``--data`` is a folder with ``pbmc_3500_pcs.tsv.gz``, ``pbmc_3500_meta.tsv.gz`` and ``cell_lines.rda``,
the examples of Harmony.  Needs scanpy, harmonypy, concord-sc, scib-metrics and rdata.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import statistics
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from study import BEGIN, END, head, word

import ccl_plugins as ccl
from ccl_plugins.experiments.results import ALPHA, holm, interval_of, paired, visible

FOLDER = Path(__file__).parent
CELLS, COMPONENTS, STEPS, BATCH = 600, 30, 100, 128
NEIGHBORS = 30
TEMPERATURE, MASK = 0.4, 0.4
"""Those of CONCORD, for every row that has one."""
EPOCHS, LONGER = 15, 30
"""Of CONCORD: its default, and what takes as many seconds of a core as `STEPS` of ours."""
FIRST, AGAIN = range(5), range(5, 15)
"""Draws of the protocol, and of the one of a second comparison, whose time is measured."""
MARGIN = 0.02


@dataclass(frozen=True)
class Cells:
    """Cells of a data set.

    Args:
        x: (n, genes) logarithms of scaled counts, or (n, c) components of them.
        batch: (n,) numbers of the batch, which is to be ignored.
        label: (n,) numbers of the type; None: unknown.
        genes: Whether ``x`` holds genes.
    """

    x: np.ndarray
    batch: np.ndarray
    label: np.ndarray | None
    genes: bool = False

    def some(self, seed: int) -> Cells:
        """`CELLS` of them, or four fifths if that is fewer, drawn at random."""
        size = min(CELLS, int(0.8 * len(self.x)))
        rows = np.sort(np.random.default_rng(seed).permutation(len(self.x))[:size])
        label = None if self.label is None else self.label[rows]
        return Cells(self.x[rows], self.batch[rows], label, self.genes)

    def components(self, x: np.ndarray | None = None) -> np.ndarray:
        """(n, c) the principal components, of other numbers of these cells if given."""
        from sklearn.decomposition import PCA

        x = self.x if x is None else x
        return PCA(COMPONENTS, random_state=0).fit_transform(x) if self.genes else x


def numbers(words: Any) -> np.ndarray:
    """(n,) the place of each word in sorted order."""
    return np.unique(np.asarray(words, dtype=str), return_inverse=True)[1]


@cache
def pbmc(folder: Path, seed: int) -> Cells:
    """Blood cells of three donors, as 30 components; their types are not known."""
    import pandas as pd

    x = pd.read_csv(folder / "pbmc_3500_pcs.tsv.gz", sep="\t").to_numpy(np.float32)
    donor = pd.read_csv(folder / "pbmc_3500_meta.tsv.gz", sep="\t")["donor"]
    return Cells(x, numbers(donor), None).some(seed)


@cache
def lines(folder: Path, seed: int) -> Cells:
    """Two cell lines in three batches, of which two hold one line each, as 20 components."""
    import rdata

    read = rdata.read_rda(folder / "cell_lines.rda")["cell_lines"]
    meta = read["meta_data"]
    x = read["scaled_pcs"].to_numpy(np.float32)
    return Cells(x, numbers(meta["dataset"]), numbers(meta["cell_type"])).some(seed)


@cache
def phases(folder: Path, seed: int) -> Cells:
    """Blood cells of ten types and 765 genes, with the phase of the cell cycle as batch."""
    import scanpy

    read = scanpy.datasets.pbmc68k_reduced()
    x = read.raw.X.toarray().astype(np.float32)
    return Cells(x, numbers(read.obs["phase"]), numbers(read.obs["bulk_labels"]), True).some(seed)


@cache
def simulated(folder: Path, seed: int) -> Cells:
    """CONCORD's simulation: five clusters; each of four batches has three, and genes of its own."""
    import scanpy
    from concord.simulation import simulate_from_state

    made = simulate_from_state(
        n_cells_per_cluster=[400] * 5,
        n_genes_per_cluster=[60] * 5,
        state_dispersion=[3.0] * 5,
        mean_level=10.0,
        n_batches=4,
        clusters_per_batch=3,
        seed_state=seed,
    )["adata"]
    scanpy.pp.normalize_total(made, target_sum=1e4)
    scanpy.pp.log1p(made)
    x = np.asarray(made.X, dtype=np.float32)
    return Cells(x, numbers(made.obs["batch"]), numbers(made.obs["cluster"]), True).some(seed)


DATA: Mapping[str, Callable[[Path, int], Cells]] = {
    "lines": lines,
    "phases": phases,
    "simulated": simulated,
    "pbmc": pbmc,
}
LABELED = ("lines", "phases", "simulated")


def annotated(cells: Cells) -> Any:
    """The cells as AnnData."""
    import anndata
    import pandas as pd

    obs = pd.DataFrame({"batch": pd.Categorical(cells.batch.astype(str))})
    obs.index = obs.index.astype(str)
    return anndata.AnnData(cells.x.copy(), obs)


def combat(cells: Cells, seed: int) -> np.ndarray:
    """ComBat, and the components of what it leaves."""
    import scanpy

    made = annotated(cells)
    # A gene without variance in the data gives no number.
    made = made[:, cells.x.std(0) > 0].copy()
    scanpy.pp.combat(made, key="batch")
    return cells.components(np.nan_to_num(np.asarray(made.X)))


def harmony(cells: Cells, seed: int) -> np.ndarray:
    """Harmony on the components."""
    import harmonypy
    import pandas as pd

    batch = pd.DataFrame({"batch": cells.batch.astype(str)})
    x = cells.components().astype(float)
    made = np.asarray(harmonypy.run_harmony(x, batch, "batch", random_state=seed).Z_corr)
    return made if made.shape == x.shape else made.T


def concord(epochs: int, cells: Cells, seed: int) -> np.ndarray:
    """CONCORD with its own defaults, but for as many latent numbers as components, and epochs.

    Cells that are held densely are read without processes of their own; the numbers are the same.
    """
    from concord import Concord

    made = annotated(cells)
    if not cells.genes:
        made.X /= cells.x.std()
    given = {"n_epochs": epochs, "latent_dim": COMPONENTS, "seed": seed, "preload_dense": True}
    model = Concord(made, save_dir=None, domain_key="batch", device=torch.device("cpu"), **given)
    model.fit_transform(output_key="made", save_model=False)
    return np.asarray(made.obsm["made"])


def ours(objective: Any, together: bool, shuffled: bool, cells: Cells, seed: int) -> np.ndarray:
    """Features of a network that was trained by an objective; None: it was not trained.

    Args:
        objective: Its choice.
        together: Whether the cells of a training batch are of one batch.
        shuffled: Whether each cell has the batch of another one.
        cells: The cells.
        seed: Of training.
    """
    x = torch.from_numpy(cells.x if cells.genes else cells.x / cells.x.std())
    torch.manual_seed(seed)
    backbone = ccl.backbone("mlp", in_features=x.shape[1], hidden=[128])
    if objective is None:
        with torch.no_grad():
            return backbone.build()(x).numpy()  # normalized over these cells
    batch = cells.batch
    if shuffled:
        batch = np.random.default_rng(seed).permutation(batch)
    columns = {"label": torch.zeros(len(x), dtype=torch.long), "batch": torch.from_numpy(batch)}
    table = {"features": x, **columns}
    read = objective.spec.name != "infonce"
    pipeline = ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=table, test=table),
        transform=ccl.transform("noise", std=0.0, drop=MASK),
        backbone=backbone,
        method=ccl.method("simclr", hidden=128, dim=64, batch_norm=False),
        objective=objective,
        **({"condition": ccl.condition("column", name="batch")} if read else {}),
        **({"sampler": ccl.sampler("same_condition", small="repeat")} if together else {}),
        evaluate=[],
        monitor="off",
    )
    with tempfile.TemporaryDirectory() as folder:
        run = pipeline.fit(
            out=folder,
            progress=False,
            logger=False,
            epochs=1000,
            max_steps=STEPS,
            batch_size=BATCH,
            seed=seed,
            workers=0,
            optimizer=ccl.optimizer("adamw", lr=1e-3, weight_decay=1e-4),
        )
        with torch.no_grad():
            return run.backbone.eval()(x).numpy()


OURS = "Fair-InfoNCE, batches of one donor"
AT_EQUAL_TIME = f"CONCORD, {LONGER} epochs"
FAIR = ccl.objective("fair_infonce", temperature=TEMPERATURE)
FORMS: Mapping[str, Callable[[Cells, int], np.ndarray]] = {
    "PCA": lambda cells, seed: cells.components(),
    "untrained": partial(ours, None, False, False),
    "ComBat": combat,
    "Harmony": harmony,
    "CONCORD": partial(concord, EPOCHS),
    AT_EQUAL_TIME: partial(concord, LONGER),
    "InfoNCE": partial(ours, ccl.objective("infonce", temperature=TEMPERATURE), False, False),
    OURS: partial(ours, FAIR, True, False),
    "Fair-InfoNCE, donors shuffled": partial(ours, FAIR, True, True),
    "Fair-CCLK, any batches": partial(
        ours,
        ccl.objective("fair_cclk", kernel=ccl.kernel("delta"), temperature=TEMPERATURE),
        False,
        False,
    ),
}

AT_FIRST = [form for form in FORMS if form != AT_EQUAL_TIME]
"""Rows of the first comparison."""


def neighbors(x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, count) distances and places of the nearest, the own first."""
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=count).fit(x).kneighbors(x)


def kept(before: np.ndarray, after: np.ndarray, batch: np.ndarray) -> float:
    """Of each cell's nearest of its own batch, the share that is among them afterwards."""
    shares = []
    for each in np.unique(batch):
        rows = batch == each
        count = min(NEIGHBORS, rows.sum() - 1) + 1
        first, second = (neighbors(x[rows], count)[1][:, 1:] for x in (before, after))
        shares += [
            len({*a} & {*b}) / (count - 1)
            for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]
    return float(np.mean(shares))


def measured(cells: Cells, x: np.ndarray) -> dict[str, float]:
    """What scib-metrics says of coordinates: of the types, and of the batches."""
    import scib_metrics as scib
    from scib_metrics.nearest_neighbors import NeighborsResults

    x = np.ascontiguousarray(x, dtype=np.float32)
    before = cells.components()
    distances, places = neighbors(x, 90)
    near = NeighborsResults(indices=places, distances=distances)
    batch, label = cells.batch, cells.label
    found = {
        "ilisi": scib.ilisi_knn(near, batch),
        "pcr": scib.pcr_comparison(before, x, batch, categorical=True),
        "kept": kept(before, x, batch),
    }
    if label is not None:
        clusters = scib.nmi_ari_cluster_labels_kmeans(x, label)
        found |= {
            "bras": scib.bras(x, label, batch),
            "connectivity": scib.graph_connectivity(near.subset_neighbors(15), label),
            "isolated": scib.isolated_labels(x, label, batch),
            "nmi": clusters["nmi"],
            "ari": clusters["ari"],
            "silhouette": scib.silhouette_label(x, label),
            "clisi": scib.clisi_knn(near, label),
        }
        biology = ("isolated", "nmi", "ari", "silhouette", "clisi")
        mixing = ("ilisi", "pcr", "bras", "connectivity")
    else:
        biology, mixing = ("kept",), ("ilisi", "pcr")
    found = {name: float(value) for name, value in found.items()}
    found["biology"] = float(np.mean([found[name] for name in biology]))
    found["mixing"] = float(np.mean([found[name] for name in mixing]))
    found["total"] = 0.6 * found["biology"] + 0.4 * found["mixing"]
    return found


def placed(data: Path, name: str, form: str, seed: int) -> tuple[np.ndarray, float]:
    """Coordinates by one way of one draw of one data set, and the CPU seconds that they took.

    They are computed twice, and timed the second time: the first time loads what is needed.
    """
    quiet()
    cells = DATA[name](data, seed)
    FORMS[form](cells, seed)
    start = cpu()
    x = FORMS[form](cells, seed)
    return x, cpu() - start


def cpu() -> float:
    """CPU seconds of this process and of those that it started, once they have ended."""
    of = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(each)[:2]) for each in of)


def run(alone: Executor, data: Path, name: str, form: str, seed: int) -> dict[str, Any]:
    """A row: coordinates by one way of one draw of one data set, measured.

    Args:
        alone: Computes each way in a process of its own, where nothing else has run.
        data: The folder of Harmony's examples.
        name: Of the data set.
        form: The way.
        seed: Of the draw.
    """
    x, seconds = alone.submit(placed, data, name, form, seed).result()
    measures = measured(DATA[name](data, seed), x)
    return {"data": name, "form": form, "seed": seed, "seconds": seconds, **measures}


def quiet() -> None:
    """Use one thread, and silence the libraries."""
    warnings.simplefilter("ignore")
    for logger in ("harmonypy", "concord", "lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    torch.set_num_threads(1)


def totals(rows: Sequence[Mapping[str, Any]], form: str) -> dict[int, float]:
    """By seed, the mean total over the data sets with labels."""
    by: dict[int, list[float]] = {}
    for row in rows:
        if row["form"] == form and row["data"] in LABELED:
            by.setdefault(row["seed"], []).append(row["total"])
    return {seed: float(np.mean(each)) for seed, each in by.items() if len(each) == len(LABELED)}


def told(values: Sequence[float], places: int = 2) -> str:
    """The mean, and half its 95 % interval by Student's t if there are several values."""
    if not values:
        return "-"
    mean, half = interval_of(values)
    return f"{mean:.{places}f}" + (f" ± {half:.{places}f}" if len(values) > 1 else "")


def tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was measured, and ours less each other row."""
    shown = head(["", *(f"{d}: biology, mixing" for d in DATA), "total", "seeds", "CPU seconds"])
    for form in AT_FIRST:
        of = [row for row in rows if row["form"] == form]
        cells = []
        for name in DATA:
            here = [row for row in of if row["data"] == name]
            pair = [told([row[key] for row in here]) for key in ("biology", "mixing")]
            cells.append(", ".join(pair) if here else "-")
        total = [*totals(rows, form).values()]
        took = told([statistics.median([row["seconds"] for row in of])], 1) if of else "-"
        shown.append(f"| {form} | {' | '.join(cells)} | {told(total, 3)} | {len(total)} | {took} |")
    return [*shown, "", *differences(rows, [f for f in AT_FIRST if f != OURS]), ""]


def differences(rows: Sequence[Mapping[str, Any]], others: Sequence[str]) -> list[str]:
    """Ours less each of the other rows, in pairs of one draw, by Holm's method."""
    found = {form: paired(totals(rows, form), totals(rows, OURS)) for form in others}
    # All of them count, also those that have not been measured.
    ps = holm([1.0 if each.p is None else each.p for each in found.values()])
    shown = head([f"{OURS}, less", "seeds", "difference of the total", "p, Holm"])
    for (form, each), p in zip(found.items(), ps, strict=True):
        if each.deviation is None:
            continue
        text = f"{each.difference:+.3f} ± {visible(each.n) * each.deviation:.3f}"
        bold = f"**{text}**" if p < ALPHA else text
        shown.append(f"| {form} | {each.n} | {bold} | {p:.2g} |")
    return shown


BESIDE = (AT_EQUAL_TIME, "CONCORD", "untrained", "Harmony", "Fair-InfoNCE, donors shuffled")
"""Rows of the second comparison, of which the first is compared by its protocol."""


def again(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The second comparison: what it decides, and how long each way took."""
    ours, other = (totals(rows, form) for form in (OURS, BESIDE[0]))
    seeds = sorted(ours.keys() & other.keys())
    if len(seeds) < 2:
        return []
    mean, half = interval_of([ours[seed] - other[seed] for seed in seeds])
    shown = [
        f"**{word(mean - half, mean + half, MARGIN)}**: {OURS}, less {BESIDE[0]}: {mean:+.3f};"
        f" 95 % interval over {len(seeds)} draws {mean - half:+.3f} to {mean + half:+.3f}.",
        "",
        *head(["", "total", "seeds", *(f"{name}: CPU seconds" for name in LABELED)]),
    ]
    for form in (OURS, *BESIDE):
        total = [*totals(rows, form).values()]
        took = [
            statistics.median(r["seconds"] for r in rows if (r["form"], r["data"]) == (form, name))
            for name in LABELED
        ]
        cells = [told(total, 3), str(len(total)), *(f"{each:.2f}" for each in took)]
        shown.append(f"| {form} | {' | '.join(cells)} |")
    return [*shown, "", *differences(rows, BESIDE), ""]


def page(rows: Sequence[Mapping[str, Any]], text: str) -> str:
    """The text of the page with its tables of these rows."""
    first, second = ([row for row in rows if row["seed"] in draws] for draws in (FIRST, AGAIN))
    made, *parts = text.split(BEGIN)
    for part, lines in zip(parts, (tables(first), again(second)), strict=True):
        made += f"{BEGIN}\n" + "\n".join(["", *lines]) + f"\n{END}{part.split(END)[1]}"
    return made


def main() -> None:
    """Measure what is missing, and write the tables of the page."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--data", type=Path, required=True, help="the folder of Harmony's examples")
    made.add_argument("--tables", action="store_true", help="write the tables alone")
    options = made.parse_args()
    quiet()
    file = FOLDER / "cells.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    known = {(row["data"], row["form"], row["seed"]) for row in rows}
    # What is compared by the protocol comes first.
    todo = [(d, f, s) for s in FIRST for d in LABELED for f in ("CONCORD", OURS)]
    todo += [(d, f, s) for f in AT_FIRST for s in FIRST for d in LABELED]
    todo += [(d, f, s) for s in FIRST for d in DATA for f in AT_FIRST]
    for forms in ((OURS, BESIDE[0]), BESIDE[1:]):
        todo += [(d, f, s) for s in AGAIN for d in LABELED for f in forms]
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as alone:
        for each in [] if options.tables else todo:
            if each not in known:
                known.add(each)
                rows.append(run(alone, options.data, *each))
                print(len(rows), *each, flush=True)
                file.write_text(json.dumps(rows, indent=1) + "\n")
    written = FOLDER / "cells.md"
    written.write_text(page(rows, written.read_text()))


if __name__ == "__main__":
    main()

"""Adapt a small foundation model to plates with batch effects by metadata; writes ``adaptation.md``.

Run it as ``python docs/evidence/benchmarks/adaptation.py``. What ``adaptation.json`` has is not
trained again, so it
can be stopped; ``--arms 0/2`` and ``--arms 1/2`` share the work between two processes, and ``--page``
trains nothing. Needs ``pip install "ccl-plugins[lora]"``.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import torch
from adaptation_page import COLUMNS, page
from filelock import FileLock
from pages import parser, publish

import ccl_plugins as ccl
from ccl_plugins.conditions import Column
from ccl_plugins.datasets import Plates
from ccl_plugins.evaluators import LinearProbe
from ccl_plugins.protocols import Dataset, Frozen, Measurement

SEEDS = (1, 2, 3, 4, 5)
"""Each is a world of its own, with its foundation model; world 0 was for trying out."""
FOUNDATION_STEPS, STEPS, BATCH = 400, 120, 64
PLAIN = {"effect": 0.0, "agreement": 0.25, "train": 4096, "test": 1024}
"""What the foundation model is trained on, without labels: plates without batch effects."""
SHIFTED = {"effect": 0.4, "train": 2048, "test": 1024}
"""What it is adapted to."""
SMALL = {"train": 1024, "test": 512}
"""What the old task is measured on."""
VIT = {
    "in_chans": 5,
    "img_size": 32,
    "patch_size": 8,
    "embed_dim": 64,
    "depth": 2,
    "num_heads": 4,
    "global_pool": "avg",
    "dynamic_img_size": True,
}
VIEWS = {"size": 32, "min_scale": 0.4, "jitter": 0.0, "gray": 0.0, "batched": True}
VIEWS |= {"mean": [0.25] * 5, "std": [0.25] * 5}
DINO = {"hidden": 256, "bottleneck": 64, "dim": 256, "momentum": 0.95, "batch_norm": True}


@dataclass(frozen=True)
class Arm:
    """A way to adapt the foundation model.

    Args:
        base: ``"dino"``, ``"infonce"``, ``"fair_cclk"`` or ``"labels"``.
        guides: Tables without weights.
        balance: As `guided` takes it.
        tried: Learning rates with the weight of all guides, of which one is chosen.
        lora: Whether low-rank matrices learn, and not the weights.
        shuffled: Whether each image has the metadata of another one.
    """

    base: str
    guides: Sequence[Mapping[str, Any]] = ()
    balance: str | None = None
    tried: Sequence[tuple[float, float]] = ((1e-3, 0.3), (1e-3, 1.0), (3e-3, 1.0))
    lora: bool = False
    shuffled: bool = False


def keep(on: str, by: Any, **rest: Any) -> dict[str, Any]:
    """A guide that keeps a condition."""
    return {"on": on, "keep": True, "by": by, **rest}


def hide(on: str, by: Any, **rest: Any) -> dict[str, Any]:
    """A guide that suppresses a condition."""
    return {"on": on, "keep": False, "by": by, **rest}


def form(*guides: Mapping[str, Any], balance: str | None = "gradient", low: float = 0.3) -> Arm:
    """Guides beside `dino`, with the rate that is chosen without guides."""
    return Arm("dino", guides, balance, ((3e-3, low), (3e-3, 1.0)))


RATES = ((3e-4, 0.0), (1e-3, 0.0), (3e-3, 0.0))
DELTA = {"use": "fair_cclk", "kernel": "delta", "temperature": 0.2}
PROTOTYPES = keep("compound", "prototypes")
CONTRAST = keep("compound", {"use": "cl_infonce", "temperature": 0.2}, at="features")
DOSE = keep("dose", "regression")
REVERSAL = hide("plate", "classification", suppress="reversal")
UNIFORM = hide("plate", "classification", suppress="uniform")
LEAST_SQUARES = hide("plate", "classification", suppress="least_squares")
FAIR = hide("plate", DELTA, at="features")
HSIC = hide("plate", "hsic")
FINO = (PROTOTYPES, DOSE, REVERSAL)

MAIN = {
    "labels": Arm("labels", tried=RATES),
    "dino": Arm("dino", tried=RATES),
    "dino_fino": Arm("dino", FINO, "gradient"),
    "dino_own": Arm("dino", (CONTRAST, DOSE, FAIR), "gradient"),
    "lora_fino": Arm("dino", FINO, "gradient", lora=True),
    "infonce": Arm("infonce", tried=RATES),
    "fair_cclk": Arm("fair_cclk", tried=RATES),
    "shuffled": Arm("dino", FINO, "gradient", shuffled=True),
}
FORMS = {
    "prototypes": form(PROTOTYPES),
    "contrast": form(CONTRAST),
    "dose": form(DOSE),
    "reversal": form(REVERSAL),
    "uniform": form(UNIFORM),
    "least_squares": form(LEAST_SQUARES),
    "hsic": form(HSIC),
    "fair": form(FAIR),
    "unbalanced": form(*FINO, balance=None, low=0.1),
}
"""Each form of a guide, alone."""
ARMS = MAIN | FORMS

UNTOUCHED = ("untrained", "frozen")
"""An untrained network, and the foundation model as it is."""


@ccl.local("evaluator")
class MLPProbe:
    """Accuracy of a classifier with one hidden layer: ``"mlp-<column>/top1"``."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.columns = {column: ("categorical",)}

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """Fitted to the standardized training features."""
        from sklearn.neural_network import MLPClassifier

        center, scale = train.features.mean(0), train.features.std(0).clamp_min(1e-6)
        x, y = (((each.features - center) / scale).numpy() for each in (train, test))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it ends after 60 passes
            fit = MLPClassifier((64,), random_state=0, max_iter=60)
            fit.fit(x, train.metadata[self.column].numpy())
        value = float(fit.score(y, test.metadata[self.column].numpy()))
        words = (
            f"the share of the test samples whose {self.column} a network with a hidden layer names"
        )
        return [Measurement(f"mlp-{self.column}/top1", value, words, column=self.column)]


@ccl.local("evaluator")
class NewSite:
    """The linear probe, fitted here, on another data set's test split: ``"new/linear/top1"``."""

    def __init__(self, of: Dataset) -> None:
        self.of = of

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``"new/linear/top1"``."""
        found = LinearProbe()(train, train.freeze(self.of("test")))
        return [replace(each, name=f"new/{each.name}") for each in found]


@ccl.local("evaluator")
class PerPlate:
    """The linear probe of features standardized on each plate, the simple cure for batch effects.

    ``"per_plate/linear/top1"`` of the test split, or ``"per_plate/new/linear/top1"`` of another data set's.
    """

    def __init__(self, of: Dataset | None = None) -> None:
        self.of = of

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """The accuracy."""
        if self.of is not None:
            test = train.freeze(self.of("test"))
        where = "per_plate" if self.of is None else "per_plate/new"
        found = LinearProbe()(*(self._standardized(each) for each in (train, test)))
        return [replace(each, name=f"{where}/{each.name}") for each in found]

    def _standardized(self, frozen: Frozen) -> Frozen:
        x = frozen.features.clone()
        for plate in frozen.metadata["plate"].unique():
            rows = frozen.metadata["plate"] == plate
            x[rows] = (x[rows] - x[rows].mean(0)) / x[rows].std(0).clamp_min(1e-6)
        return replace(frozen, features=x)


@ccl.local("condition")
class Shuffled(Column):
    """A column in an order that has nothing to do with the images."""

    def fit(self, split: Any, embed: Any, previous: Any) -> Any:
        """The column's values, shuffled."""
        values = super().fit(split, embed, previous)
        return values[torch.randperm(len(values), generator=torch.Generator().manual_seed(0))]


@ccl.local("dataset")
class Kept:
    """A data set whose splits are drawn once in a process."""

    SPLITS: ClassVar[dict[tuple[str, str], Any]] = {}

    def __init__(self, of: Dataset) -> None:
        self.of = of

    def __call__(self, split: str) -> Any:
        """A split."""
        key = (repr(vars(self.of)), split)
        if key not in self.SPLITS:
            self.SPLITS[key] = self.of(split)
        return self.SPLITS[key]

    def schema(self) -> Any:
        """The data set's."""
        return self.of.schema()


def data(seed: int, **settings: Any) -> Any:
    """Plates of a world."""
    plates = ccl.dataset("plates", **SHIFTED | settings, seed=seed)
    return ccl.local("dataset", Kept, of=plates)


def evaluators(seed: int) -> list[Any]:
    """What is measured of an adapted model beside its pipeline's evaluators."""
    new = data(seed, held_out="new site")
    # Where mechanism and site are independent, so that a probe of the site reads the site.
    even = data(seed, agreement=0.25)
    old = data(100 + seed, **PLAIN | SMALL)
    leaks = [
        ccl.evaluator("linear", column="site"),
        ccl.local("evaluator", MLPProbe, column="site"),
    ]
    plates = [ccl.local("evaluator", PerPlate, of=each) for each in (None, new)]
    return [
        ccl.evaluator("fairness", column="site"),
        ccl.local("evaluator", NewSite, of=new),
        ccl.evaluator("elsewhere", of=even, evaluate=leaks, name="even"),
        ccl.evaluator("elsewhere", of=old, evaluate=["linear", "knn"], name="old"),
        *plates,
    ]


def backbone(weights: Path | None, **settings: Any) -> Any:
    """The ViT, with the foundation model's weights or untrained."""
    file = None if weights is None else str(weights / "model.safetensors")
    name = "vit_tiny_patch16_224"
    return ccl.backbone("timm", name=name, options=VIT, checkpoint_path=file, **settings)


def pipeline(arm: Arm, weight: float, on: Any, weights: Path | None, **settings: Any) -> Any:
    """An arm with a weight of its guides, on a data set, from weights or from none."""
    simple = {"method": ccl.method("simclr", hidden=128, dim=64)}
    simple["transform"] = ccl.transform("simclr", blur=0.0, **VIEWS)
    blur = (0.0, 0.0, 0.0)
    views = ccl.transform("dino", small=0, blur=blur, solarize=0.0, **VIEWS)
    crops = {"method": ccl.method("dino", **DINO), "transform": views}
    column: Any = functools.partial(ccl.condition, "column")
    if arm.shuffled:
        column = functools.partial(ccl.local, "condition", Shuffled)
    parts: dict[str, Any] = {
        "dino": {**crops, "objective": "dino"},
        "infonce": {**simple, "objective": ccl.objective("infonce", temperature=0.2)},
        "fair_cclk": {
            **simple,
            "objective": ccl.objective("fair_cclk", kernel="delta", temperature=0.2),
            "condition": column(name="plate"),
        },
        "labels": {**simple, "objective": "classification", "condition": "label"},
    }[arm.base]
    if arm.guides:
        guides = [{**each, "weight": weight} for each in arm.guides]
        parts["objective"] = ccl.objective(
            "guided", base="dino", guides=guides, balance=arm.balance
        )
        parts["conditions"] = {each["on"]: column(name=each["on"]) for each in guides}
    if arm.lora:
        settings["lora"] = {"rank": 8, "on": ["qkv", "proj", "fc1", "fc2"]}
    return ccl.Pipeline(
        dataset=on,
        backbone=backbone(weights, **settings),
        evaluate=["linear", "knn", "cka"],
        monitor="off",
        **parts,
    )


def fit(made: Any, out: Path, rate: float, seed: int, steps: int) -> Any:
    """Train for a number of steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page looks at what comes out
        return made.fit(
            out=out,
            overwrite=True,
            progress=False,
            logger=False,
            epochs=1000,
            max_steps=steps,
            batch_size=BATCH,
            seed=seed,
            optimizer=ccl.optimizer("adamw", lr=rate, weight_decay=0.04),
            clip=3.0,
            workers=0,
        )


def foundation(seed: int, work: Path, steps: int) -> Path:
    """The folder of the foundation model of a world, trained by `dino` and exported for timm."""
    folder = work / f"foundation-{seed}"
    with FileLock(work / f"foundation-{seed}.lock"):
        if not (folder / "SHA256SUMS").exists():
            plain = ccl.dataset("plates", **PLAIN, seed=100 + seed)
            run = fit(
                pipeline(ARMS["dino"], 0.0, plain, None), work / f"plain-{seed}", 1e-3, seed, steps
            )
            command = [sys.executable, "-m", "ccl_plugins", "export", run.path, "--out", folder]
            subprocess.run([str(each) for each in command], check=True, capture_output=True)
    return folder


Cell = dict[str, Any]


def validated(run: Any, seed: int) -> float:
    """The number that settings are chosen by."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cka is left out of validation
        found = run.validate(on=Kept(Plates(**SHIFTED, seed=seed, held_out="validation")))
    return found["linear/top1"]


def measured(run: Any, seed: int) -> dict[str, float]:
    """All numbers of a run."""
    others = run.measure(*evaluators(seed))
    return run.evaluate() | {name: each.value for name, each in others.items()}


def train(
    name: str, rate: float, weight: float, seed: int, work: Path, steps: Sequence[int]
) -> Any:
    """A run of an arm, or of a network as it is."""
    weights = None if name == "untrained" else foundation(seed, work, steps[0])
    out = work / f"run-{name}-{rate}-{weight}-{seed}"
    if name in ARMS:
        return fit(pipeline(ARMS[name], weight, data(seed), weights), out, rate, seed, steps[1])
    made = pipeline(ARMS["dino"], 0.0, data(seed), weights, freeze="all")
    return fit(made, out, 1e-3, seed, 1)


def chosen(cells: Sequence[Cell], name: str) -> tuple[float, float] | None:
    """The rate and the weight of an arm that are best on the validation data of the first seed.

    None while not all were tried.
    """
    if name not in ARMS:
        return 0.0, 0.0
    settings = ARMS[name].tried
    tried = [c for c in cells if c["arm"] == name and c["seed"] == SEEDS[0]]
    tried = [c for c in tried if (c["rate"], c["weight"]) in settings]
    if len(tried) < len(settings):
        return None
    best = max(tried, key=lambda cell: cell["validation"])
    return best["rate"], best["weight"]


def final(cells: Sequence[Cell]) -> dict[str, dict[int, Cell]]:
    """For each arm the cells of the setting that was chosen, by seed."""
    found = {}
    for name in [*UNTOUCHED, *ARMS]:
        setting = chosen(cells, name)
        mine = [c for c in cells if c["arm"] == name and (c["rate"], c["weight"]) == setting]
        if mine := [cell for cell in mine if cell["after"]]:
            found[name] = {cell["seed"]: cell for cell in mine}
    return found


def read(file: Path) -> list[Cell]:
    """The cells of a file, none if it is not there."""
    return json.loads(file.read_text()) if file.exists() else []


def write(file: Path, cell: Cell) -> None:
    """Add a cell, or put it in place of the same one without measurements."""
    with FileLock(f"{file}.lock"):  # another process may write its own
        cells = [c for c in read(file) if key(c) != key(cell)] + [cell]
        order = [*UNTOUCHED, *ARMS]
        cells.sort(key=lambda c: (order.index(c["arm"]), c["seed"], c["rate"], c["weight"]))
        whole = Path(f"{file}.part")
        whole.write_text(json.dumps(cells, indent=1) + "\n")
        whole.replace(file)


def key(cell: Cell) -> tuple[str, float, float, int]:
    """What tells a cell from others."""
    return cell["arm"], cell["rate"], cell["weight"], cell["seed"]


def fill(file: Path, seeds: Sequence[int], names: Sequence[str], work: Path) -> None:
    """Train and measure what a file lacks: of each seed all arms, of the first all settings."""
    for seed, name in product(seeds, names):
        runs: dict[tuple[float, float], Any] = {}
        known = {key(cell): cell for cell in read(file)}
        if seed == SEEDS[0] and name in ARMS:
            for setting in ARMS[name].tried:
                if (name, *setting, seed) not in known:
                    runs[setting] = train(name, *setting, seed, work, (FOUNDATION_STEPS, STEPS))
                    value = validated(runs[setting], seed)
                    write(file, cell_of(name, *setting, seed, value, {}))
        setting = chosen(read(file), name)
        if setting is None or known.get((name, *setting, seed), {}).get("after"):
            continue
        if setting not in runs:
            runs[setting] = train(name, *setting, seed, work, (FOUNDATION_STEPS, STEPS))
        run = runs[setting]
        after = measured(run, seed)
        value = {key(cell): cell for cell in read(file)}.get((name, *setting, seed), {})
        write(file, cell_of(name, *setting, seed, value.get("validation"), after))
        print(name, *setting, seed, {k: round(after[k], 3) for k in COLUMNS}, flush=True)
        for each in runs.values():
            shutil.rmtree(each.path)


def cell_of(
    arm: str,
    rate: float,
    weight: float,
    seed: int,
    validation: float | None,
    after: dict[str, float],
) -> Cell:
    """A cell as the file has it."""
    return {
        "arm": arm,
        "rate": rate,
        "weight": weight,
        "seed": seed,
        "validation": validation,
        "after": after,
    }


def main() -> None:
    """Measure and write."""
    command = parser(__doc__, "five steps of two arms")
    command.add_argument("--arms", default="0/1", help="every n-th arm from the k-th, as 0/2")
    command.add_argument("--work", type=Path, help="where foundation models are kept")
    command.add_argument("--page", action="store_true", help="train nothing")
    options = command.parse_args()
    file = options.out / "adaptation.json"
    first, every = map(int, options.arms.split("/"))
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if options.quick:
            for name in ("frozen", "dino_fino", "labels"):
                print(measured(train(name, 1e-3, 0.3, 0, work, (10, 5)), 0))
            return
        if not options.page:
            for seeds in (SEEDS[:3], SEEDS[3:]):
                for names in ([*UNTOUCHED, *MAIN], [*FORMS]):
                    fill(file, seeds, names[first::every], work)
    publish(page(final(read(file)), SEEDS), "adaptation.md", options)


if __name__ == "__main__":
    main()

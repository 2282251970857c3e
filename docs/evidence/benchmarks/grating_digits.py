"""Measure the main example beside what a sceptic asks for; write the page.

Run it as ``python docs/evidence/benchmarks/grating_digits.py``. A run that ``grating_digits.json`` has
already is not trained again; ``--quick`` trains an epoch of one seed of each form.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from pages import parser, publish
from torch import Tensor, nn
from torchvision.transforms.v2 import InterpolationMode, RandomRotation

import ccl_plugins as ccl
from ccl_plugins.backbones import LeNet5
from ccl_plugins.datasets import GratingDigits
from ccl_plugins.datasets.grating_digits import MEAN
from ccl_plugins.experiments.results import interval_of
from ccl_plugins.transforms import SimCLRTransform

ROOT = Path(__file__).parents[3]
TEMPERATURES = (0.1, 0.2, 0.5)
CHOOSING = (0, 1)
"""The seeds whose validation accuracy chooses each form's temperature."""
STRONG = {"jitter": 0.5, "gray": 0.2, "blur": 0.5}
SHUFFLED = ", angles shuffled"
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "InfoNCE": ("infonce", {}),
    "InfoNCE, jitter, gray and blur": ("infonce", {"transform": STRONG}),
    "InfoNCE, views turned": ("infonce", {"transform": {"use": "turned"}}),
    "Fair-CCLK": ("fair", {}),
    "Fair-CCLK, jitter, gray and blur": ("fair", {"transform": STRONG}),
    f"Fair-CCLK{SHUFFLED}": (
        "fair",
        {"condition": {"use": "shuffled", "of": {"use": "column", "name": "angle"}}},
    ),
}
"""By its name, the example file and the settings that differ from it."""
LAYERS = {"convolution, 400": 4, "linear, 120": 6, "features, 84": 8}
"""By its name, the place in the network of the last module of a layer."""
PROBES = {
    "digit": "digit, linear",
    "neighbors": "digit, 20 nearest neighbors",
    "angle": "angle, linear R²",
    "angle_mlp": "angle, MLP R²",
    "angle_neighbors": "angle, neighbors R²",
}
Row = dict[str, Any]


class Turned(SimCLRTransform):
    """SimCLR's views, each of the image turned by any angle first."""

    def __init__(self, size: int = 32, min_scale: float = 0.5) -> None:
        super().__init__(size, min_scale, flip=0.0, jitter=0.0, gray=0.0, blur=0.0)
        # A turn shows corners that are not there: they are filled with the mean brightness.
        turn = RandomRotation(180, InterpolationMode.BILINEAR, fill=round(255 * MEAN))
        self.steps = [[turn, *steps] for steps in self.steps]


ccl.local("transform", Turned)


def settings(form: str, temperature: float, seed: int, epochs: int | None) -> dict[str, Any]:
    """The example's file as this form has it; a seed draws the split and the gratings, too."""
    name, changes = FORMS[form]
    tables = tomllib.loads((ROOT / "examples" / f"grating_digits_{name}.toml").read_text())
    tables["dataset"] = {"use": "grating_digits", "seed": seed}
    tables["objective"]["temperature"] = temperature
    tables["fit"] |= {"seed": seed, "workers": 0, **({"epochs": epochs} if epochs else {})}
    for key, change in changes.items():
        # Another component has settings of its own.
        tables[key] = change if "use" in change else {**tables[key], **change}
    if form.endswith(SHUFFLED):
        tables["condition"] = {**tables["condition"], "seed": seed}
    return tables


def probe(layers: nn.Sequential, transform: Any, splits: Sequence[Any]) -> dict[str, Any]:
    """By layer, what each probe reads from it on the test split."""
    images = [
        transform.plain(torch.stack([split[i][0] for i in range(len(split))])) for split in splits
    ]
    train, test = (split.metadata for split in splits)
    made = {}
    for name, place in LAYERS.items():
        with torch.no_grad():
            x, x_test = (layers[: place + 1].eval()(each).flatten(1) for each in images)
        made[name] = read(x, train, x_test, test)
    return made


def read(x: Tensor, seen: Mapping[str, Tensor], x_test: Tensor, test: Mapping[str, Tensor]) -> Any:
    """What scikit-learn's probes read."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probes = {
        "digit": (LogisticRegression(max_iter=1000), "label"),
        "neighbors": (KNeighborsClassifier(20, metric="cosine"), "label"),
        "angle": (RidgeCV(torch.logspace(-3, 4, 15).tolist()), "angle"),
        "angle_mlp": (
            MLPRegressor(
                hidden_layer_sizes=(128,), early_stopping=True, max_iter=300, random_state=0
            ),
            "angle",
        ),
        "angle_neighbors": (KNeighborsRegressor(20), "angle"),
    }
    return {
        name: float(
            make_pipeline(StandardScaler(), model)
            .fit(x.numpy(), seen[column].numpy())
            .score(x_test.numpy(), test[column].numpy())
        )
        for name, (model, column) in probes.items()
    }


def train(what: tuple[str, float, int], epochs: int | None) -> Row:
    """One run: its validation accuracy, and what the probes read of each layer."""
    form, temperature, seed = what
    torch.set_num_threads(1)
    tables = settings(form, temperature, seed, epochs)
    with tempfile.TemporaryDirectory() as folder:
        run = ccl.Pipeline.from_dict(tables).fit(out=folder, progress=False)
        test = probe(run.backbone.layers, run.transform, run.splits)
        validation = run.validate()["linear/top1"]
    row = {"form": form, "temperature": temperature, "seed": seed}
    return {**row, "validation": validation, "test": test}


def untrained(seed: int) -> Row:
    """The network before the first step."""
    torch.manual_seed(seed)
    data = GratingDigits(seed=seed)
    test = probe(LeNet5().layers, SimCLRTransform(32), [data("train"), data("test")])
    return {"form": "untrained", "temperature": None, "seed": seed, "test": test}


def chosen(rows: Sequence[Row], form: str) -> float | None:
    """The temperature with the best validation accuracy; None: not all were tried.

    With shuffled angles it is Fair-CCLK's, so that the condition alone differs.
    """
    form = form.removesuffix(SHUFFLED)
    found = {
        t: [
            r["validation"]
            for r in rows
            if (r["form"], r["temperature"]) == (form, t) and r["seed"] in CHOOSING
        ]
        for t in TEMPERATURES
    }
    if any(len(values) < len(CHOOSING) for values in found.values()):
        return None
    return max(TEMPERATURES, key=lambda t: statistics.fmean(found[t]))


def wanted(rows: Sequence[Row], seeds: int, quick: bool) -> Iterator[tuple[str, float, int]]:
    """What is to be trained, in the order in which it can be: first what chooses, then the rest."""
    if quick:
        yield from ((form, 0.5, 0) for form in FORMS)
        return
    own = [form for form in FORMS if not form.endswith(SHUFFLED)]
    yield from ((form, t, seed) for seed in CHOOSING for form in own for t in TEMPERATURES)
    for seed in range(seeds):
        for form in FORMS:
            best = chosen(rows, form)
            if best is not None:
                yield form, best, seed


def final(rows: Sequence[Row], form: str) -> dict[int, Row]:
    """By seed, the runs of a form at its chosen temperature, which the untrained network has not."""
    best = chosen(rows, form)
    return {r["seed"]: r for r in rows if (r["form"], r["temperature"]) == (form, best)}


def table(rows: Sequence[Row], layer: str) -> list[str]:
    """What is read from a layer, form by form."""
    head = ["| | temperature | seeds | " + " | ".join(PROBES.values()) + " |"]
    lines = [*head, "|" + "---|" * (3 + len(PROBES))]
    for form in ("untrained", *FORMS):
        runs = final(rows, form)
        if not runs:
            continue
        cells = [
            interval_of([run["test"][layer][probe] for run in runs.values()]) for probe in PROBES
        ]
        shown = [f"{mean:.2f} ± {half:.2f}" for mean, half in cells]
        temperature = next(iter(runs.values()))["temperature"] or "-"
        lines.append(f"| {form} | {temperature} | {len(runs)} | " + " | ".join(shown) + " |")
    return lines


def summary(rows: Sequence[Row]) -> str:
    """The table of the README: what is read from the features."""
    layer = [*LAYERS][-1]
    shown = ("digit", "neighbors", "angle", "angle_mlp")
    lines = ["| | " + " | ".join(PROBES[probe] for probe in shown) + " |", "|---|---|---|---|---|"]
    for form in ("untrained", *FORMS):
        runs = final(rows, form).values()
        cells = [interval_of([run["test"][layer][probe] for run in runs]) for probe in shown]
        lines.append(
            f"| {form} | " + " | ".join(f"{m:.2f} ± {half:.2f}" for m, half in cells) + " |"
        )
    return "\n".join(lines)


def differences(rows: Sequence[Row]) -> list[str]:
    """Fair-CCLK less each other form, in pairs of one seed, on the features."""
    ours, layer = final(rows, "Fair-CCLK"), [*LAYERS][-1]
    lines = [
        "| Fair-CCLK less | " + " | ".join(PROBES.values()) + " |",
        "|" + "---|" * (1 + len(PROBES)),
    ]
    for form in ("untrained", *FORMS):
        other = final(rows, form)
        both = ours.keys() & other.keys()
        if form == "Fair-CCLK" or len(both) < 2:
            continue
        cells = []
        for probe in PROBES:
            pairs = [
                ours[s]["test"][layer][probe] - other[s]["test"][layer][probe] for s in sorted(both)
            ]
            mean, half = interval_of(pairs)
            cells.append(f"{mean:+.2f} ± {half:.2f}")
        lines.append(f"| {form} | " + " | ".join(cells) + " |")
    return lines


def page(rows: Sequence[Row]) -> str:
    """The page, of all runs there are."""
    tables = [
        line for layer in reversed(LAYERS) for line in ("", f"### {layer}", "", *table(rows, layer))
    ]
    return "\n".join([*BEGIN, *tables, *MIDDLE, *differences(rows), *END]) + "\n"


BEGIN = (
    "# Digits on gratings: conditioning beside augmentations",
    "",
    "**Fair-CCLK hides nearly all of the angle, and the digit is read better.** At the features, R² of a",
    "linear probe is .03 ± .03, where InfoNCE has .96 ± .02. The probe of the digit is .03 ± .01 above",
    "that of InfoNCE at the best temperature of .1, .2 and .5.",
    "",
    "- The usual augmentations leave the angle to every probe.",
    "- **Views that are turned hide the angle as well**: an augmentation for this variable exists. It",
    "  costs some of the digit, which then has to be told in any direction (linear probe, -0.02 ± 0.01",
    "  beside InfoNCE). Fair-CCLK is .05 ± .01 above it, and for the neighbors .18 ± .03. Where no such",
    "  augmentation is known, such as for an age, a condition needs none.",
    "- The condition does it: with the angles of other images, the effect is gone.",
    "- Earlier layers keep more of the angle: R² of a linear probe is .09 one layer before, and .50 at",
    "  the convolution.",
    "- With jitter, gray and blur Fair-CCLK hides a little less of the angle from both trained probes.",
    "",
    "## What is read, layer by layer",
)
MIDDLE = (
    "",
    "## Differences, in pairs",
    "",
    "Of the features, seed by seed: the mean ± half the 95 % interval, which leaves out 0 where the first",
    "number is larger than the second.",
    "",
)
END = (
    "",
    "## How it was done",
    "",
    "`examples/grating_digits_fair.toml` beside InfoNCE (`grating_digits_infonce.toml`), the usual",
    "augmentations, views that are turned, the untrained network, and angles of other images as the",
    "condition. The data are drawn for this purpose. A seed draws gratings, split, initial weights and",
    "batches. Mean ± half the 95 % interval over seeds (Student's t), on the test split. Written by",
    "`python docs/evidence/benchmarks/grating_digits.py`.",
    "",
    "Each form has the temperature of 0.1, 0.2 and 0.5 with the best accuracy of a linear probe on a tenth",
    "of the *training* split, over the seeds 0 and 1, which are reported too. For InfoNCE that is the",
    "lowest of the three; with views that are turned 0.1 and 0.2 are equal, and the lower is taken. With",
    "shuffled angles it is Fair-CCLK's, so that the condition alone differs.",
    "",
    "The probes are scikit-learn's, of standardized outputs: logistic regression, 20 nearest neighbors,",
    "ridge regression with a cross-validated penalty, and an MLP of 128 hidden units. R² is of the cosine",
    "and the sine of twice the angle. Chance is 0.10 for the digit and 0 for R²; the MLP and the neighbors",
    "are below 0 where they fit noise.",
)


def main() -> None:
    """Train what is missing, and write the page."""
    made = parser(__doc__, "train an epoch of one seed")
    made.add_argument("--seeds", type=int, default=10, help="seeds of each form")
    made.add_argument("--processes", type=int, default=1, help="processes that train at once")
    options = made.parse_args()
    file = options.out / "grating_digits.json"
    rows = json.loads(file.read_text()) if file.exists() and not options.quick else []

    def missing() -> list[tuple[str, float, int]]:
        known = {(r["form"], r["temperature"], r["seed"]) for r in rows}
        return [
            each
            for each in dict.fromkeys(wanted(rows, options.seeds, options.quick))
            if each not in known
        ]

    seeds = range(1 if options.quick else options.seeds)
    rows += [untrained(seed) for seed in seeds if seed not in final(rows, "untrained")]
    epochs = 1 if options.quick else None
    with get_context("spawn").Pool(options.processes) as pool:
        while todo := missing():  # the first runs choose the temperatures of the others
            for row in pool.imap_unordered(partial(train, epochs=epochs), todo):
                rows.append(row)
                print(len(rows), row["form"], row["temperature"], row["seed"], flush=True)
                if not options.quick:
                    file.write_text(json.dumps(rows, indent=1) + "\n")
    publish(page(rows), "grating_digits.md", options)


if __name__ == "__main__":
    main()

"""What the three studies share: rows that a file does not have yet, probes, and the tables of a page."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

import ccl_plugins as ccl
from ccl_plugins.experiments.results import ALPHA, Paired, holm, interval_of, paired, visible
from ccl_plugins.protocols import Frozen

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- the script writes these tables -->", "<!-- here they end -->"
TRIED = "the value that is tried"
"""Stands in settings for the temperature, or the weight of a guide, that is tried."""
Row: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[Any], Tensor]
"""From a split to its features (N, f)."""


@dataclass(frozen=True)
class Form:
    """A row of a study's table.

    Args:
        settings: What differs from the study's pipeline, as arguments of `ccl_plugins.Pipeline`; ``data``
            holds parameters of the data set.  None: the network is not trained.
        tried: Values of one number, a temperature or a weight, of which the best on validation is taken.
        like: The row whose number is taken, so that something else alone differs.
        seeds: At most so many of the reported seeds; None: all.
        read: Features without a network; None: those of the row's network.
    """

    settings: Mapping[str, Any] | None
    tried: Sequence[float | None] = (None,)
    like: str | None = None
    read: Read | None = None
    seeds: int | None = None


@dataclass(frozen=True)
class Study:
    """A study: its rows, its data and its measurements.

    Args:
        name: Of the script, the page and the file of results.
        forms: The rows, by their titles.
        columns: The titles of what is measured, by name.
        compared: By the row of ours, the rows that it is compared with.
        pipeline: From settings and a seed to a pipeline's arguments, data set included.
        measured: From a function that computes features, a seed and the settings, to the measurements.
        validated: Likewise, to the number that chooses a value; it reads no test sample.
        steps: Of the training of a row.
        batch_size: Of the training of a row.
        choosing: The seeds whose validation chooses the value of a row.
        apart: Whether these seeds are not reported, and their test samples not measured.
        digits: Of the numbers of its tables.
        verdict: From the runs to lines of the page that stand before the tables.
        endpoint: The column that was named before the runs, of which alone a difference can be decided;
            None: of all columns.
        cures: Columns that are the endpoint after a cure of the features.  What they say of a row is
            compared with the endpoint of ours without a cure: (ours, the other row, the columns).
        first: The first of the reported seeds.
        fit: Settings of the training that differ from those of the other studies.
        described: The titles of what a further table has, by name; none of it is compared.
    """

    name: str
    forms: Mapping[str, Form]
    columns: Mapping[str, str]
    compared: Mapping[str, Sequence[str]]
    pipeline: Callable[[Mapping[str, Any], int], dict[str, Any]]
    measured: Callable[[Read, int, Mapping[str, Any]], dict[str, Any]]
    validated: Callable[[Read, int, Mapping[str, Any]], float]
    steps: int
    batch_size: int = 128
    choosing: Sequence[int] = (0,)
    apart: bool = False
    digits: int = 2
    verdict: Callable[[Sequence[Row]], list[str]] | None = None
    endpoint: str | None = None
    cures: Sequence[tuple[str, str, Sequence[str]]] = ()
    first: int = 0
    fit: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)

    def run(self, what: tuple[str, float | None, int], steps: int | None = None) -> Row:
        """Train a row of a seed with one of its values, and measure it."""
        from threadpoolctl import threadpool_limits

        torch.set_num_threads(1)
        with threadpool_limits(1):  # scikit-learn's threads would wait for each other
            return self._run(*what, steps)

    def _run(self, title: str, value: float | None, seed: int, steps: int | None) -> Row:
        settings = self.forms[title].settings
        parts = self.pipeline(at(settings or {}, value), seed)
        if settings is None:
            torch.manual_seed(seed)
            backbone, transform = (parts[kind].build() for kind in ("backbone", "transform"))
        else:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the page looks at what comes out
                training = {
                    "epochs": 1000,
                    "max_steps": steps or self.steps,
                    "batch_size": self.batch_size,
                    "seed": seed,
                    "workers": 0,
                    "optimizer": ccl.optimizer("adamw", lr=3e-3, weight_decay=1e-4),
                    **self.fit,
                }
                pipeline = ccl.Pipeline(**parts, evaluate=[], monitor="off")
                run = pipeline.fit(out=folder, progress=False, logger=False, **training)
                backbone, transform = run.backbone, run.transform
        read = self.forms[title].read or partial(features, backbone, transform)
        row = {"form": title, "tried": value, "seed": seed}
        if self.forms[title].tried != (None,):
            row["validation"] = self.validated(read, seed, settings or {})
        if self.apart and seed in self.choosing:
            return row
        return {**row, "test": self.measured(read, seed, settings or {})}

    def chosen(self, rows: Sequence[Row], title: str) -> float | None:
        """The value with the best validation; LookupError: not all were tried."""
        form = self.forms[title]
        if form.like is not None:
            return self.chosen(rows, form.like)
        if len(form.tried) == 1:
            return form.tried[0]
        means = {}
        for t in form.tried:
            found = [
                r["validation"] for r in of(rows, title, t).values() if r["seed"] in self.choosing
            ]
            if len(found) < len(self.choosing):
                raise LookupError(f"{title} was not tried with {t}")
            means[t] = statistics.fmean(found)
        return max(means, key=means.__getitem__)

    def wanted(self, rows: Sequence[Row], seeds: int) -> Iterator[tuple[str, float | None, int]]:
        """What is to be trained, in the order in which it can be: first what chooses, then the rest."""
        for seed in self.choosing:
            for title, form in self.forms.items():
                if form.like is None and (len(form.tried) > 1 or not self.apart):
                    yield from ((title, t, seed) for t in form.tried)
        for few in (False, True):  # rows of few seeds come last
            for seed in range(self.first, self.first + seeds):
                for title, form in self.forms.items():
                    last = self.first + (form.seeds or seeds)
                    if (form.seeds is not None) != few or seed >= last:
                        continue
                    with contextlib.suppress(LookupError):
                        yield title, self.chosen(rows, title), seed

    def final(self, rows: Sequence[Row], title: str) -> dict[int, Row]:
        """By seed, the runs of a row with its value."""
        try:
            runs = of(rows, title, self.chosen(rows, title))
            out = self.choosing if self.apart else ()
            return {s: r for s, r in runs.items() if s >= self.first and s not in out}
        except LookupError:
            return {}

    def table(self, rows: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
        """What was measured of each row, by the titles of columns."""
        lines = head(["", "temperature or weight", "seeds", *columns.values()])
        for title in self.forms:
            if runs := self.final(rows, title):
                value = next(iter(runs.values()))["tried"] or "-"
                cells = [interval_of([r["test"][name] for r in runs.values()]) for name in columns]
                shown = " | ".join(
                    f"{mean:.{self.digits}f}" + f" ± {half:.{self.digits}f}" * (len(runs) > 1)
                    for mean, half in cells
                )
                lines.append(f"| {title} | {value} | {len(runs)} | {shown} |")
        return lines

    def differences(self, rows: Sequence[Row]) -> list[str]:
        """Ours less other rows, in pairs of one seed; in bold where it is decided, by Holm's method."""
        runs = {title: self.final(rows, title) for title in self.forms}
        values = {
            title: {n: {seed: row["test"][n] for seed, row in of.items()} for n in self.columns}
            for title, of in runs.items()
        }
        tests: dict[str, dict[str, Paired]] = {}
        for ours, others in self.compared.items():
            for title in others:
                tests[f"{ours}, less {title}"] = {
                    name: paired(values[title][name], values[ours][name]) for name in self.columns
                }
        for ours, title, cures in self.cures:
            for name in cures:
                tests[f"{ours}, less {title}: {self.columns[name]}"] = {
                    str(self.endpoint): paired(
                        values[title][name], values[ours][str(self.endpoint)]
                    )
                }
        tests = {
            title: found
            for title, found in tests.items()
            if all(each.deviation is not None for each in found.values())
        }
        columns = [self.endpoint] if self.endpoint else [*self.columns]
        family = [(title, name) for title in tests for name in columns]
        # Where it is the same with every seed there is no p.
        ps = holm([1.0 if (p := tests[t][name].p) is None else p for t, name in family])
        decided = {cell for cell, p in zip(family, ps, strict=True) if p < ALPHA}
        lines = []
        if family:
            of = f" of *{self.columns[self.endpoint]}*" if self.endpoint else ""
            lines = [WORDS.format(n=len(family), of=of, decided=len(decided)), ""]
            lines += head(["", "seeds", *self.columns.values()])
        for title, found in tests.items():
            texts = {
                name: f"{each.difference:+.{self.digits}f}"
                f" ± {visible(each.n) * each.deviation:.{self.digits}f}"
                for name, each in found.items()
            }
            cells = [
                f"**{texts[name]}**" if (title, name) in decided else texts.get(name, "")
                for name in self.columns
            ]
            n = next(iter(found.values())).n
            lines.append(f"| {title} | {n} | " + " | ".join(cells) + " |")
        return lines

    def page(self, rows: Sequence[Row], text: str) -> str:
        """The text of the page with its tables of these rows."""
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        verdict = self.verdict(rows) if self.verdict else []
        middle = ["", *verdict, *self.table(rows, self.columns), ""]
        if self.described:
            middle += [*self.table(rows, self.described), ""]
        if differences := self.differences(rows):
            middle += [*differences, ""]
        return f"{before}{BEGIN}\n" + "\n".join(middle) + f"\n{END}{after}"

    def main(self, doc: str | None) -> None:
        """Train what is missing, and write the tables of the page."""
        made = argparse.ArgumentParser(description=doc)
        made.add_argument("--quick", action="store_true", help="two steps a row; write nothing")
        made.add_argument("--seeds", type=int, default=5, help="seeds of each row")
        made.add_argument("--processes", type=int, default=1, help="processes that train at once")
        options = made.parse_args()
        if options.quick:
            for title, form in self.forms.items():
                print(self.run((title, form.tried[0], 0), steps=2), flush=True)
            return
        file, rows = FOLDER / f"{self.name}.json", self.stored()
        with get_context("spawn").Pool(options.processes) as pool:
            while todo := self.missing(rows, options.seeds):  # the first runs choose values
                for row in pool.imap_unordered(self.run, todo):
                    rows.append(row)
                    print(len(rows), row["form"], row["tried"], row["seed"], flush=True)
                    file.write_text(json.dumps(rows, indent=1) + "\n")
        page = FOLDER / f"{self.name}.md"
        page.write_text(self.page(rows, page.read_text()))

    def missing(self, rows: Sequence[Row], seeds: int) -> list[tuple[str, float | None, int]]:
        """What is to be trained now."""
        known = {(r["form"], r["tried"], r["seed"]) for r in rows}
        return [each for each in dict.fromkeys(self.wanted(rows, seeds)) if each not in known]

    def stored(self) -> list[Row]:
        """The rows that were trained before."""
        file = FOLDER / f"{self.name}.json"
        return json.loads(file.read_text()) if file.exists() else []


WORDS = """Differences in pairs of one seed, mean ± half the 95 % interval of this one alone. All {n}{of}
are tested together. In **bold**: the {decided} with p below .05 by Holm's method; no other is decided."""


def word(low: float, high: float, margin: float) -> str:
    """What an interval decides: above the margin it supports a claim, below 0 it refutes the claim."""
    if low > margin:
        return "Supported"
    return "Refuted" if high < 0 else "Inconclusive"


def fifths(group: Tensor, seed: int) -> dict[str, Tensor]:
    """Rows of ``"train"`` (three fifths of the groups), ``"validation"`` and ``"test"``.

    Args:
        group: (n,) the group of each row, 0 to the number of groups less 1.
        seed: Of the order of groups.
    """
    count = int(group.max()) + 1
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    rank = order.argsort()[group].double() / count
    bounds = {"train": (0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1)}
    return {
        name: ((rank >= low) & (rank < high)).nonzero().flatten()
        for name, (low, high) in bounds.items()
    }


def convolutions(*widths: int) -> list[nn.Module]:
    """Convolutions of stride 2 between channels of these numbers, each normalized and rectified."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        convolution = nn.Conv2d(before, after, 3, 2, 1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    return layers


@ccl.local("backbone")
class Small(nn.Module):
    """Two convolutions of stride 2 and a linear layer, for images of 24x24 pixels and little time."""

    num_features = 64

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        layers = convolutions(in_channels, 12, 24)
        linear = nn.Linear(24 * 36, self.num_features)
        self.layers = nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, 64) of images (n, in_channels, 24, 24)."""
        return self.layers(x)


def at(settings: Any, value: float | None) -> Any:
    """Settings with a value in the places of `TRIED`."""
    if isinstance(settings, Mapping):
        return {key: at(each, value) for key, each in settings.items()}
    if isinstance(settings, list):
        return [at(each, value) for each in settings]
    return value if settings == TRIED else settings


def of(rows: Sequence[Row], title: str, value: float | None) -> dict[int, Row]:
    """By seed, the runs of a row with a value."""
    return {r["seed"]: r for r in rows if (r["form"], r["tried"]) == (title, value)}


def head(titles: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]


@torch.no_grad()
def features(backbone: nn.Module, transform: Any, split: Any) -> Tensor:
    """(N, f) of a split's images without augmentation."""
    backbone.eval()
    return torch.cat([backbone(transform.plain(x)) for x in split.images.split(512)])


def on_each_group(x: Tensor, group: Tensor, known: Tensor | None = None) -> Tensor:
    """Features (n, f) less the mean of their group, over the deviation there.

    A deviation counts as a tenth of that over all groups or more, since some features hardly vary there.

    Args:
        x: The features.
        group: (n,) ids.
        known: (n,) True at the samples that means and deviations are of; None: all.
    """
    least = 0.1 * x.std(0).clamp_min(1e-3)
    made = torch.empty_like(x)
    for each in group.unique():
        rows = group == each
        some = x[rows if known is None else rows & known]
        made[rows] = (x[rows] - some.mean(0)) / torch.maximum(some.std(0), least)
    return made


def combat(x: Tensor, batch: Tensor) -> Tensor:
    """Features (n, f) with the mean and deviation of each batch made alike by ComBat."""
    import scanpy

    varied = x.std(0) > 1e-6  # a unit that is always off has no deviation to divide by
    table = annotated(x[:, varied], batch)
    scanpy.pp.combat(table, key="batch")
    return torch.from_numpy(table.X).float()


def annotated(x: Tensor, batch: Tensor) -> Any:
    """An AnnData of features with their batch."""
    import anndata
    import pandas

    names = pandas.Categorical([str(each) for each in batch.tolist()])
    obs = pandas.DataFrame({"batch": names}, index=[str(i) for i in range(len(x))])
    return anndata.AnnData(x.numpy(), obs=obs)


def classifier(x: Tensor, ids: Tensor, groups: Tensor | None = None, hidden: bool = False) -> Any:
    """A probe of standardized features: logistic regression, or an MLP of 64 hidden units.

    Args:
        x: (n, f) features.
        ids: (n,) classes.
        groups: (n,) groups that count alike; None: samples do.
        hidden: Whether it is the MLP.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if hidden:
        made = make_pipeline(
            StandardScaler(), MLPClassifier((64,), early_stopping=True, random_state=0)
        )
        return made.fit(x.numpy(), ids.numpy())
    weights = None
    if groups is not None:
        _, place, counts = groups.unique(return_inverse=True, return_counts=True)
        weights = (len(x) / len(counts) / counts[place]).numpy()
    made = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    return made.fit(x.numpy(), ids.numpy(), logisticregression__sample_weight=weights)


def right(probe: Any, x: Tensor, ids: Tensor) -> Tensor:
    """(n,) 1 where a probe names the class."""
    return torch.from_numpy(probe.predict(x.numpy()) == ids.numpy()).double()


MIXED = {
    "ilisi": "iLISI",
    "kbet": "kBET, rejected",
    "silhouette_batch": "silhouette, mixed",
    "clisi": "cLISI, class",
    "silhouette_label": "silhouette, class",
    "map": "replicates, mAP",
}
"""The titles of what `mixed` measures."""


def mixed(x: Tensor, group: Tensor, label: Tensor) -> dict[str, float]:
    """How well groups are mixed in features, and how well classes stay apart: the names of `MIXED`.

    Args:
        x: (n, f) features.
        group: (n,) ids of the groups.
        label: (n,) classes.
    """
    frozen = Frozen(x, {"group": group, "label": label})
    evaluators = (
        ccl.evaluator("mixing", column="group", label="label"),
        ccl.evaluator("retrieval", k=[], across="group"),
    )
    found = [each for made in evaluators for each in made.build()(frozen, frozen)]
    return {each.name.rpartition("/")[2]: each.value for each in found}


def explained(x: Tensor, values: Tensor, x_test: Tensor, wanted: Tensor, hidden: bool) -> float:
    """R² of a ridge regression of standardized features, or of an MLP of 64 hidden units.

    Args:
        x: (n, f) features to fit to.
        values: (n,) their values.
        x_test: (m, f) other features.
        wanted: (m,) their values.
        hidden: Whether it is the MLP.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = RidgeCV(torch.logspace(-3, 4, 15).tolist())
    if hidden:
        regression = MLPRegressor(
            hidden_layer_sizes=(64,), early_stopping=True, max_iter=300, random_state=0
        )
    # A feature that is the same in all images has nothing but rounding errors, once ages are regressed out.
    varied = x.std(0) > 1e-3 * x.std(0).max()
    x, x_test = x[:, varied], x_test[:, varied]
    mean, std = values.mean(), values.std()
    made = make_pipeline(StandardScaler(), regression)
    made.fit(x.numpy(), ((values - mean) / std).numpy())
    return float(made.score(x_test.numpy(), ((wanted - mean) / std).numpy()))

"""Decide the papers' claims from the stored results, and write the page that lists them.

``python docs/reproduction/claims.py`` reads ``claims.toml``, which has a row for each claim, and
``examples/reproduction/results/NAME.json``.  It writes

- ``docs/reproduction/claims.md``: the claims of the papers;
- the block between ``<!-- claims -->`` and ``<!-- end claims -->`` of the pages of the experiments: the
  claims that name the page;
- ``examples/reproduction/results/claims.csv``: every comparison, also those that a table has no room for.

A row of ``claims.toml`` has a ``status`` (``exact``, ``not tested`` or ``no claim``) and its ``evidence``,
or ``results`` and ``tests``, from which the status follows.  A test has a ``metric``, or a ``curve`` that
the training logged, and one of

- ``above = [["A", "B"], ...]``: the mean of A is above that of B; four names, ``["A", "B", "C", "D"]``, say
  that A - B is above C - D;
- ``alike = ["A", "B", ...]`` and ``within``: no two means differ by more than the margin;
- ``trend = ["A", "B", ...]`` and ``over``: the slope of the means over these numbers, or over the column of
  that name of ``NAME_information.csv``, is above 0; with ``falls = true`` below 0.

A name is that of a configuration, or of one of the ``[choices.NAME]``: the configuration among these with
the highest mean accuracy on the validation part.  Of a curve, a name stands for the mean over the training,
and ``NAME @ STEP`` for the value after that step.
"""

from __future__ import annotations

import csv
import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import bartlett, nct, t

from ccl_plugins.experiments.results import holm

PAGES = Path(__file__).parent
RESULTS = PAGES.parents[1] / "examples" / "reproduction" / "results"
ALPHA = 0.05
POWER = 0.8
CHOSEN_BY = "linear/top1"
NAMES = {
    "color/mse255": "squared error of the color",
    "color/r2": "R² of the color",
    "linear-holes/top1": "holes",
    "linear-slant/top1": "slant",
    "monitor/linear/top1": "accuracy while training",
    "monitor/projections/conditional_entropy": "conditional entropy",
    "loss": "loss",
    "e^g": "e^g",
}
"""What a metric is called before a difference; without a name it is the accuracy of the linear probe."""

OURS = "ours"
"""In place of a paper, of the questions that are asked here alone."""

BLOCK = re.compile(r"(<!-- claims -->\n).*?(<!-- end claims -->)", re.DOTALL)
Values = Mapping[str, Mapping[str, float]]
"""By configuration and seed."""


@dataclass(frozen=True)
class Comparison:
    """A difference of means, or a slope, and what it says of a claim.

    Args:
        label: What is compared.
        estimate: Above 0 if it is as the claim says; of a claim of no difference, of either sign.
        error: Its standard error.
        df: The degrees of freedom of the error.
        n: How many seeds each mean has.
        model: ``"additive"`` or ``"paired"``: how the error was estimated.
        within: The margin of a claim of no difference; None: a claim of an order.
    """

    label: str
    estimate: float
    error: float
    df: int
    n: int
    model: str
    within: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 %, of this comparison alone."""
        half = float(t.ppf(1 - ALPHA / 2, self.df)) * self.error
        return self.estimate - half, self.estimate + half

    @property
    def p_for(self) -> float:
        """One-sided: how likely such an estimate is at the edge of where the claim is false."""
        return float(t.sf(self._inside / self.error, self.df))

    @property
    def p_against(self) -> float:
        """One-sided: how likely such an estimate is at the edge of where the claim is true."""
        return float(t.cdf(self._inside / self.error, self.df))

    @property
    def shows(self) -> float:
        """The smallest difference that is found in 80 % of such experiments, with p below 0.05.

        Of a claim of no difference, the smallest margin that is kept in 80 % of them if there is none.
        """
        # Both one-sided tests of a margin must succeed; where there is no difference they fail alike often.
        power = POWER if self.within is None else (1 + POWER) / 2
        edge = float(t.ppf(1 - ALPHA / 2, self.df))
        found = brentq(lambda d: nct.sf(edge, self.df, d) - power, 0.0, 20 * edge)
        return float(found) * self.error

    @property
    def _inside(self) -> float:
        """How far the estimate is inside of what the claim says."""
        return self.estimate if self.within is None else self.within - abs(self.estimate)


@dataclass(frozen=True)
class Decision:
    """The comparisons of a claim, and what they say together.

    A claim is supported if every comparison supports it, so the largest p counts.  It is contradicted if
    one comparison does, so the smallest p counts, times the number of comparisons.  Both are doubled: the
    test has two sides.
    """

    comparisons: Sequence[Comparison]

    @property
    def p_supported(self) -> float:
        """How likely such means are at the edge of where the claim is false."""
        return min(1.0, 2 * max(each.p_for for each in self.comparisons))

    @property
    def p_contradicted(self) -> float:
        """How likely such means are at the edge of where the claim is true."""
        smallest = min(each.p_against for each in self.comparisons)
        return min(1.0, 2 * len(self.comparisons) * smallest)

    @property
    def p(self) -> float:
        """Before Holm's correction."""
        return min(self.p_supported, self.p_contradicted)

    def status(self, adjusted: float) -> str:
        """What the comparisons say together, with p adjusted for the other rows."""
        if adjusted >= ALPHA:
            return "inconclusive"
        return "supported" if self.p_supported <= self.p_contradicted else "contradicted"

    @property
    def decisive(self) -> Comparison:
        """The one that contradicts the claim most, or else supports it least."""
        if self.p_contradicted < min(ALPHA, self.p_supported):
            return min(self.comparisons, key=lambda each: each.p_against)
        return max(self.comparisons, key=lambda each: each.p_for)


def estimate(values: Values, weights: Mapping[str, float]) -> tuple[float, float, int, int, str]:
    """A weighted sum of means: estimate, standard error, degrees of freedom, seeds, and the model.

    The model is value = configuration + seed + error, over all configurations with the metric.  Where the
    values or the residuals of configurations spread differently (Bartlett's test), the weighted sum is
    taken for each seed, and only these sums are used.
    """
    labels = list(values)
    seeds = sorted({seed for each in values.values() for seed in each})
    cells = [(label, seed) for label in labels for seed in values[label]]
    design = np.zeros((len(cells), len(labels) + len(seeds) - 1))
    for row, (label, seed) in zip(design, cells, strict=True):
        row[labels.index(label)] = 1
        if column := seeds.index(seed):
            row[len(labels) + column - 1] = 1
    y = np.array([values[label][seed] for label, seed in cells])
    inverse = np.linalg.pinv(design.T @ design)
    means = inverse @ design.T @ y
    residuals = y - design @ means
    w = np.zeros(len(means))
    for label, weight in weights.items():
        w[labels.index(label)] = weight
    n = min(len(values[label]) for label in weights)
    # The residuals of two configurations are each other's negatives, and never differ in size.
    spread_alike = len(labels) == 2 or all(
        bartlett(*(each[[own == label for own, _ in cells]] for label in labels)).pvalue >= ALPHA
        for each in (y, residuals)
    )
    if not spread_alike:
        common = [s for s in seeds if all(s in values[label] for label in weights)]
        sums = [sum(c * values[label][s] for label, c in weights.items()) for s in common]
        error = float(np.std(sums, ddof=1)) / len(sums) ** 0.5
        return float(np.mean(sums)), error, len(sums) - 1, len(sums), "paired"
    df = len(y) - int(np.linalg.matrix_rank(design))
    variance = float(residuals @ residuals) / df
    return float(w @ means), float(np.sqrt(variance * (w @ inverse @ w))), df, n, "additive"


@functools.cache
def load(name: str) -> Mapping[str, Any]:
    """The configurations of a results file, by their labels."""
    found = json.loads((RESULTS / f"{name}.json").read_text())["configurations"]
    return {each["label"]: each for each in found}


def choose(name: str, labels: Sequence[str]) -> str:
    """The configuration with the highest mean accuracy on the validation part."""
    found = load(name)
    return max(labels, key=lambda label: found[label]["validation"][CHOSEN_BY]["mean"])


def comparisons(row: Mapping[str, Any], choices: Mapping[str, Any]) -> Iterator[Comparison]:
    """The comparisons that decide a row.

    Raises:
        ValueError: If a name is neither a configuration nor a choice, or two names are one configuration.
    """
    name = row["results"]
    found = load(name)

    def cell(label: str) -> str:
        label, at, step = label.partition(" @ ")
        if label in choices:
            label = choose(name, choices[label])
        if label not in found:
            raise ValueError(f"{row['item']}: {name} has no {label!r}; it has {[*found]}")
        return label + at + step

    for test in row["tests"]:
        metric = test.get("metric") or test["curve"]
        unit = 100 if metric.endswith(("/top1", "/linear")) else 1
        values = _values(found, metric, unit) if "metric" in test else _logged(found, metric, unit)
        what = f"{NAMES[metric]}, " if metric in NAMES else ""
        for names in test.get("above", ()):
            signs = (1, -1, -1, 1)[: len(names)]
            weights = {cell(label): sign for label, sign in zip(names, signs, strict=True)}
            shown = [cell(label) for label in names]
            if len(weights) < len(names):
                raise ValueError(f"{row['item']}: {names} compares {shown[0]!r} with itself")
            label = " − ".join(shown) if len(names) == 2 else "({} − {}) − ({} − {})".format(*shown)
            # The values of a curve are of the same runs: only those that are compared, seed by seed.
            compared = {c: values[c] for c in weights} if "curve" in test else values
            yield Comparison(what + label, *estimate(compared, weights))
        for first, second in combinations(test.get("alike", ()), 2):
            weights = {cell(first): 1, cell(second): -1}
            label = f"{what}{cell(first)} − {cell(second)}"
            yield Comparison(label, *estimate(values, weights), within=test["within"])
        if "trend" in test:
            labels = [cell(label) for label in test["trend"]]
            over = test["over"]
            x = np.array(_column(name, over, labels) if isinstance(over, str) else over, float)
            slopes = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
            slopes *= -1 if test.get("falls") else 1
            label = f"{what}{'fall' if test.get('falls') else 'rise'} for each {test['per']}"
            yield Comparison(label, *estimate(values, dict(zip(labels, slopes, strict=True))))


def _values(found: Mapping[str, Any], metric: str, unit: int) -> Values:
    """A metric of the test split."""
    return {
        label: {seed: unit * v for seed, v in each["test"][metric]["by_seed"].items()}
        for label, each in found.items()
        if metric in each["test"]
    }


def _logged(found: Mapping[str, Any], curve: str, unit: int) -> Values:
    """A curve at each step, and its mean over the steps."""
    values: dict[str, dict[str, float]] = {}
    for label, each in found.items():
        seeds = [str(seed) for seed in each["seeds"]]
        points = {step: logged for step, _, _, *logged in each.get("curves", {}).get(curve, ())}
        for step, logged in points.items():
            values[f"{label} @ {step}"] = {s: unit * v for s, v in zip(seeds, logged, strict=True)}
        means = np.mean([*points.values()], axis=0) if points else []
        values[label] = {s: unit * float(v) for s, v in zip(seeds, means, strict=bool(points))}
    return values


def _column(name: str, column: str, labels: Sequence[str]) -> list[float]:
    with (RESULTS / f"{name}_information.csv").open(newline="") as file:
        found = {row["configuration"]: float(row[column]) for row in csv.DictReader(file)}
    return [found[label] for label in labels]


@dataclass(frozen=True)
class Row:
    """A claim with its status, and the decision behind it where there is one."""

    paper: str
    item: str
    claim: str
    status: str
    evidence: str
    page: str = ""
    decision: Decision | None = None
    adjusted: float | None = None


def decide(claims: Mapping[str, Any]) -> list[Row]:
    """The rows of ``claims.toml`` with their statuses; Holm's correction is over a family of rows.

    The four papers are one family, and our own questions another.
    """
    rows = claims["row"]
    decisions = {
        i: Decision(list(comparisons(row, claims["choices"].get(row["results"], {}))))
        for i, row in enumerate(rows)
        if "results" in row
    }
    adjusted: dict[int, float] = {}
    for ours in (False, True):
        family = [i for i in decisions if (rows[i]["paper"] == OURS) is ours]
        adjusted.update(zip(family, holm([decisions[i].p for i in family]), strict=True))
    return [
        Row(
            row["paper"],
            row["item"],
            row["claim"],
            decisions[i].status(adjusted[i]) if i in decisions else row["status"],
            row.get("evidence", ""),
            row.get("page", ""),
            decisions.get(i),
            adjusted.get(i),
        )
        for i, row in enumerate(rows)
    ]


def number(value: float) -> str:
    """Three digits, or all in front of the point."""
    value = float(f"{value:.12g}")  # half of the last digit is no more or less on another machine
    text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text.replace("-", "−")


def _p(p: float) -> str:
    return "1" if p == 1 else "< .001" if p < 0.001 else f"{p:.2g}".replace("0.", ".", 1)


def cells_of(row: Row) -> list[str]:
    """The cells of a row in the table."""
    numbers = [""] * 4
    if row.decision is not None and row.adjusted is not None:
        each = row.decision.decisive
        low, high = each.interval
        of = f" (the decisive of {len(row.decision.comparisons)})"
        margin = "" if each.within is None else f"; margin {number(each.within)}"
        numbers = [
            f"{each.label}: {number(each.estimate)} ({number(low)} to {number(high)}){margin}"
            + (of if len(row.decision.comparisons) > 1 else ""),
            str(each.n),
            number(each.shows),
            _p(row.adjusted),
        ]
    return [row.item, row.claim, row.status, *numbers, row.evidence]


HEAD = ["claim", "status", "difference (95 % interval)", "n", "n shows", "p", "evidence"]


def table(rows: Sequence[Row], first: str) -> str:
    """Rows as a table, whose first column has this heading."""
    lines = [[first, *HEAD], ["---"] * (len(HEAD) + 1)]
    lines += [[cell.replace("|", "\\|") for cell in cells_of(row)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_claims(claims: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The page of all papers' claims."""
    parts = [claims["page"]["head"].strip() + "\n", counts(rows)]
    for paper, about in claims["papers"].items():
        own = [row for row in rows if row.paper == paper]
        parts.append(f"## {paper}\n\n{about.strip()}\n")
        printed = [row for row in own if re.match(r"(Table|Figure) \d", row.item)]
        parts.append(table(printed, "item"))
        if text := [row for row in own if row not in printed]:
            parts.append(table(text, "in the text"))
    return "\n".join(parts)


def counts(rows: Sequence[Row]) -> str:
    """How many claims of each paper have each status."""
    statuses = ["exact", "supported", "contradicted", "inconclusive", "not tested", "no claim"]
    papers = [paper for paper in dict.fromkeys(row.paper for row in rows) if paper != OURS]
    lines = [["", *statuses], ["---"] * 7]
    for name in [*papers, "all"]:
        own = [r.status for r in rows if r.paper == name or (name == "all" and r.paper in papers)]
        lines.append([name, *(str(own.count(status)) for status in statuses)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_block(text: str, rows: Sequence[Row], page: str) -> str:
    """The page of an experiment with the list of its claims."""
    lines = []
    for row in rows:
        if row.page != page:
            continue
        item, claim, status, difference, n, shows, p, evidence = cells_of(row)
        title = status.capitalize() if row.paper == OURS else f"{item}, {status}"
        line = f"- **{title}.** {claim}"
        if difference:
            line += f" {difference}; n = {n}, which shows {shows}; p {p if '<' in p else f'= {p}'}."
        else:
            line += f" {evidence[:1].upper()}{evidence[1:]}"
        lines.append(line + "\n")
    return BLOCK.sub(lambda match: match[1] + "".join(lines) + match[2], text)


def write_comparisons(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every comparison as a row of numbers."""
    return [
        {
            "paper": row.paper,
            "item": row.item,
            "status": row.status,
            "comparison": each.label,
            "estimate": each.estimate,
            "low": each.interval[0],
            "high": each.interval[1],
            "margin": each.within,
            "n": each.n,
            "df": each.df,
            "model": each.model,
            "shows": each.shows,
            "p of the row": row.decision.p,
            "p by Holm": row.adjusted,
        }
        for row in rows
        if row.decision is not None
        for each in row.decision.comparisons
    ]


def main() -> None:
    """Write the page of the claims, the blocks of the other pages, and all comparisons."""
    claims = tomllib.loads((PAGES / "claims.toml").read_text())
    rows = decide(claims)
    (PAGES / "claims.md").write_text(write_claims(claims, rows))
    for page in PAGES.glob("*.md"):
        text = page.read_text()
        if BLOCK.search(text):
            page.write_text(write_block(text, rows, page.name))
    found = write_comparisons(rows)
    with (RESULTS / "claims.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()

"""Decide the papers' claims from the stored results, and write the page that lists them.

``python docs/evidence/reproduction/claims.py`` reads ``claims.toml``, which has a row for each claim, and
``examples/reproduction/results/NAME.json``.  It writes

- ``docs/evidence/reproduction/claims.md``: the claims of the papers;
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

``[rules]`` has the numbers of the rules about an experiment, ``[baselines.NAME]`` the accuracy of its
baseline in the paper, ``[epochs]`` its epochs here and in the paper, ``[seen]`` how many seeds earlier
versions of it had, and ``[known.NAME]`` how many seeds of a configuration were known when others came.
``was`` is the status that an earlier rule gave a row.
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
from scipy.stats import nct, t

from ccl_plugins.experiments.results import holm

PAGES = Path(__file__).parent
RESULTS = PAGES.parents[2] / "examples" / "reproduction" / "results"
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

ERRORS = PAGES / "error_rates.json"
ERRED = """The share of 100,000 drawn experiments without a difference in which one is called shown, by
[error_rates.py](error_rates.py). Each has six configurations of one mean. The two that are compared have a
deviation of 1, 2 or 3, the others of 1. A row of the papers is decided at about .001."""

CHOSEN = "What a name leaves open was chosen by the validation images of these seeds."
"""The evidence of a row that compares one of the ``[choices]``."""

EARLY = {"supported": "supported early in training", "contradicted": "opposite early in training"}
"""What a status is called where an experiment is much shorter than the paper's."""

STATUSES = (
    "exact",
    "supported",
    "supported early in training",
    "contradicted",
    "opposite early in training",
    "baseline not reproduced",
    "inconclusive",
    "not tested",
    "no claim",
)

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
        n: How many seeds have all of the means.
        within: The margin of a claim of no difference; None: a claim of an order.
    """

    label: str
    estimate: float
    error: float
    df: int
    n: int
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

    def shows(self, level: float = ALPHA) -> float:
        """The smallest difference that is found in 80 % of such experiments, with p below the level.

        Of a claim of no difference, the smallest margin that is kept in 80 % of them if there is none.
        """
        # Both one-sided tests of a margin must succeed; where there is no difference they fail alike often.
        power = POWER if self.within is None else (1 + POWER) / 2
        edge = float(t.ppf(1 - level / 2, self.df))
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


def estimate(values: Values, weights: Mapping[str, float]) -> tuple[float, float, int, int]:
    """A weighted sum of means, seed by seed: estimate, standard error, degrees of freedom, and seeds."""
    first, *others = (values[label] for label in weights)
    common = [seed for seed in first if all(seed in each for each in others)]
    sums = [sum(c * values[label][seed] for label, c in weights.items()) for seed in common]
    error = float(np.std(sums, ddof=1)) / len(sums) ** 0.5
    return float(np.mean(sums)), error, len(sums) - 1, len(sums)


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
            yield Comparison(what + label, *estimate(values, weights))
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
    """A claim with its status, and the decision behind it where there is one.

    Args:
        paper: Whose it is.
        item: Where it stands there.
        claim: What it says.
        status: One of `STATUSES`.
        evidence: What decides it, or why it is not tested.
        page: Of the experiment.
        decision: From its comparisons.
        adjusted: p by Holm's method.
        level: Below which p must be, if it is the smallest of its family.
        seeds: How many there are, and which of them were run after earlier results had been seen.
        was: Its status by the earlier rule, where that was another one.
    """

    paper: str
    item: str
    claim: str
    status: str
    evidence: str
    page: str = ""
    decision: Decision | None = None
    adjusted: float | None = None
    level: float = ALPHA
    seeds: str = ""
    was: str = ""


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
    levels: dict[int, float] = {}
    for ours in (False, True):
        family = [i for i in decisions if (rows[i]["paper"] == OURS) is ours]
        adjusted.update(zip(family, holm([decisions[i].p for i in family]), strict=True))
        levels.update(dict.fromkeys(family, ALPHA / max(1, len(family))))

    def decided(i: int, row: Mapping[str, Any]) -> Row:
        about = row["paper"], row["item"], row["claim"]
        evidence, page = row.get("evidence", ""), row.get("page", "")
        if i not in decisions:
            return Row(*about, row["status"], evidence, page)
        name, choices = row["results"], claims["choices"].get(row["results"], {})
        status = decisions[i].status(adjusted[i])
        if any(each.partition(" @ ")[0] in choices for each in _names(row)):
            evidence = f"{CHOSEN} {evidence}".strip()
        return Row(
            *about,
            named(status, name, claims),
            evidence,
            page,
            decisions[i],
            adjusted[i],
            levels[i],
            _seeds(decisions[i].decisive, name, claims),
            row.get("was", ""),
        )

    return [decided(i, row) for i, row in enumerate(rows)]


def _names(row: Mapping[str, Any]) -> Iterator[str]:
    """The configurations and choices that a row compares."""
    for test in row["tests"]:
        yield from (name for names in test.get("above", ()) for name in names)
        yield from (*test.get("alike", ()), *test.get("trend", ()))


def named(status: str, name: str, claims: Mapping[str, Any]) -> str:
    """A status by what the experiment is: whether its baseline and its length are near to the paper's."""
    if status not in EARLY:
        return status
    rules = claims["rules"]
    if base := claims["baselines"].get(name):
        found = load(name)[base["configuration"]]["test"][CHOSEN_BY]["mean"]
        if abs(100 * found - base["paper"]) > rules["baseline_within"]:
            return "baseline not reproduced"
    here, paper = claims["epochs"].get(name, (1, 1))
    return EARLY[status] if here < rules["early_below"] * paper else status


def _seeds(each: Comparison, name: str, claims: Mapping[str, Any]) -> str:
    """How many seeds, how many of them were added, and how many earlier versions had."""
    known = claims["known"].get(name, {})
    added = max((each.n - n for label, n in known.items() if label in each.label), default=0)
    seen = ", ".join(map(str, claims["seen"].get(name, ())))
    return f"{each.n}{f', {added} added' if added > 0 else ''}{f', after {seen}' if seen else ''}"


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
            row.seeds,
            number(each.shows(row.level)),
            _p(row.adjusted),
        ]
    status = row.status + (f" (by the earlier rule: {row.was})" if row.was else "")
    return [row.item, row.claim, status, *numbers, row.evidence]


HEAD = ["claim", "status", "difference (95 % interval)", "n", "n shows", "p", "evidence"]


def table(rows: Sequence[Row], first: str) -> str:
    """Rows as a table, whose first column has this heading."""
    lines = [[first, *HEAD], ["---"] * (len(HEAD) + 1)]
    lines += [[cell.replace("|", "\\|") for cell in cells_of(row)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_claims(claims: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The page of all papers' claims."""
    text = {name: part.strip() + "\n" for name, part in claims["page"].items()}
    parts = [text["head"], answer(rows), counts(rows), text["scope"]]
    for paper, about in claims["papers"].items():
        own = [row for row in rows if row.paper == paper]
        parts.append(f"## {paper}\n\n{about.strip()}\n")
        printed = [row for row in own if re.match(r"(Table|Figure) \d", row.item)]
        parts.append(table(printed, "item"))
        if others := [row for row in own if row not in printed]:
            parts.append(table(others, "in the text"))
    parts += [text["rule"], erred()]
    return "\n".join(parts)


def erred() -> str:
    """How often the earlier rule and this one call a difference shown where there is none."""
    found = json.loads(ERRORS.read_text())
    rules = [rule for rule in found[0] if rule not in ("seeds", "spread")]
    head = [f"{rule}, at {level:g}" for rule in rules for level in (0.05, 0.001)]
    lines = [["spread of the two that are compared", "seeds", *head], ["---"] * (2 + len(head))]
    lines += [
        [r["spread"], str(r["seeds"]), *(f"{x:.2g}" for rule in rules for x in r[rule])]
        for r in found
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"## What the earlier rule erred\n\n{ERRED}\n\n{table}"


def answer(rows: Sequence[Row]) -> str:
    """What came out, in a sentence."""
    tested = [row.status for row in rows if row.decision is not None and row.paper != OURS]
    parts = (f"{tested.count(each)} are *{each}*" for each in STATUSES if each in tested)
    return (
        f"**Of {len(tested)} claims that were tested, {', '.join(parts)}.** None was decided at the paper's"
        " own size.\n"
    )


def counts(rows: Sequence[Row]) -> str:
    """How many claims of each paper have each status."""
    papers = [paper for paper in dict.fromkeys(row.paper for row in rows) if paper != OURS]
    lines = [["", *STATUSES], ["---"] * (1 + len(STATUSES))]
    for name in [*papers, "all"]:
        own = [r.status for r in rows if r.paper == name or (name == "all" and r.paper in papers)]
        lines.append([name, *(str(own.count(status)) for status in STATUSES)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_block(text: str, rows: Sequence[Row], page: str) -> str:
    """The page of an experiment: a table of the claims that were tested, and the names of the others."""
    its = [row for row in rows if row.page == page]
    lines: list[list[str]] = [["", *HEAD[:-1]], ["---"] * len(HEAD)]
    others: dict[str, list[str]] = {}
    for row in its:
        item, *cells, _ = cells_of(row)
        if cells[2]:
            lines.append(
                [item if row.paper != OURS else "", *(c.replace("|", "\\|") for c in cells)]
            )
        else:
            others.setdefault(row.status, []).append(item)
    made = "".join(f"| {' | '.join(line)} |\n" for line in lines) if len(lines) > 2 else ""
    if others:
        names = "; ".join(f"{status}: {', '.join(items)}" for status, items in others.items())
        made += f"\n{names[0].upper()}{names[1:]}. [The table of all claims](claims.md) has the reasons.\n"
    return BLOCK.sub(lambda match: match[1] + made + match[2], text)


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
            "shows": each.shows(row.level),
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

"""The page that ``docs/benchmarks/adaptation.py`` writes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ccl_plugins.experiments.results import interval_of

Cells = Mapping[int, Mapping[str, Any]]
"""The cell of each seed."""

TITLES = {
    "untrained": "untrained network",
    "frozen": "foundation model, frozen",
    "labels": "all weights, with labels",
    "dino": "`dino`",
    "dino_fino": "`dino`, guides as FINO's",
    "dino_own": "`dino`, guides of ours",
    "lora_fino": "LoRA, `dino`, guides as FINO's",
    "infonce": "InfoNCE",
    "fair_cclk": "Fair-CCLK on the plate",
    "shuffled": "`dino`, guides as FINO's, shuffled metadata",
}
FORMS = {
    "prototypes": "keep the compound by prototypes",
    "contrast": "keep the compound by Cl-InfoNCE",
    "dose": "keep the dose by regression",
    "reversal": "suppress the plate by reversal",
    "uniform": "suppress the plate by a uniform target",
    "least_squares": "suppress the plate by least squares",
    "hsic": "suppress the plate by HSIC",
    "fair": "suppress the plate by Fair-CCLK",
    "dino_fino": "prototypes, regression and reversal",
    "unbalanced": "the same three, without `balance`",
    "dino_own": "Cl-InfoNCE, regression and Fair-CCLK",
}
GUIDED = ("dino_fino", "dino_own", "lora_fino", "fair_cclk")
COLUMNS = {
    "linear/top1": "linear",
    "knn/top1": "neighbors",
    "fairness-site/worst_group": "worst site",
    "new/linear/top1": "new site",
    "even/linear-site/top1": "site, linear",
    "even/mlp-site/top1": "site, MLP",
    "old/linear/top1": "old task",
    "features/cka": "CKA",
}
COMPARED = {
    "linear/top1": "linear",
    "fairness-site/worst_group": "worst site",
    "new/linear/top1": "new site",
    "even/mlp-site/top1": "site, MLP",
    "old/linear/top1": "old task",
}


class Difference(NamedTuple):
    """A mean difference over seeds with the ends of its 95 % interval by Student's t."""

    mean: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        """The numbers, and whether they tell anything."""
        if self.seeds < 2:
            return f"{self.mean:+.2f} (one seed)"
        unclear = " inconclusive" if self.low <= 0 <= self.high else ""
        return f"{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f}){unclear}"


def difference(first: Cells, second: Cells, key: str) -> Difference | None:
    """Second less first, over the seeds that both have; None without one."""
    values = [
        second[seed]["after"][key] - first[seed]["after"][key] for seed in first if seed in second
    ]
    if not values:
        return None
    mean, half = interval_of(values)
    return Difference(mean, mean - half, mean + half, len(values))


def spread(cells: Cells, key: str) -> str:
    """Mean and standard deviation (n - 1) over the seeds."""
    values = [cell["after"][key] for cell in cells.values()]
    if len(values) < 2:
        return f"{values[0]:.2f}" if values else ""
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"


def rows(titles: Mapping[str, str], results: Mapping[str, Cells]) -> Iterator[str]:
    """The rows of what was measured."""
    for name, title in titles.items():
        if found := results.get(name):
            numbers = " | ".join(spread(found, key) for key in COLUMNS)
            yield f"| {title} | {len(found)} | {numbers} |"


def differences(
    titles: Mapping[str, str], results: Mapping[str, Cells], against: str
) -> Iterator[str]:
    """The head of a table of differences, and its rows."""
    yield "| | " + " | ".join(COMPARED.values()) + " |"
    yield "|---" * (1 + len(COMPARED)) + "|"
    for name, title in titles.items():
        found = results.get(name, {})
        if name != against and found and against in results:
            made = [difference(results[against], found, key) for key in COMPARED]
            yield f"| {title} | " + " | ".join(str(each or "") for each in made) + " |"


def outcome(results: Mapping[str, Cells], name: str, against: str, plates: bool) -> str:
    """Whether an arm is better at the known sites and at the new one, with plates standardized or not."""
    said = []
    for key, where in (("linear/top1", "at known sites"), ("new/linear/top1", "at the new site")):
        found = difference(results[against], results[name], f"per_plate/{key}" if plates else key)
        if found is None or found.seeds < 2 or found.low <= 0 <= found.high:
            said.append(f"inconclusive {where}")
        else:
            said.append(f"{'better' if found.mean > 0 else 'worse'} {where}")
    words = " and ".join(said)
    return "inconclusive" if words.count("inconclusive") == 2 else words


def settings(results: Mapping[str, Cells]) -> str:
    """What was chosen for each arm."""
    found = []
    for name, cells in results.items():
        one = next(iter(cells.values()))
        if one["rate"]:
            weight = f", weight {one['weight']:g}" if one["weight"] else ""
            found.append(f"{(FORMS | TITLES)[name]}: rate {one['rate']:g}{weight}")
    return "; ".join(found)


HEADER = (
    "| | seeds | " + " | ".join(COLUMNS.values()) + " |",
    "|---" * (2 + len(COLUMNS)) + "|",
)


def page(results: Mapping[str, Cells], seeds: Sequence[int]) -> str:
    """The page.

    Args:
        results: For each arm the cells of its chosen setting, by seed.
        seeds: All seeds that are meant to be measured.
    """
    lacking = [
        f"{title} ({', '.join(str(seed) for seed in seeds if seed not in results.get(name, {}))})"
        for name, title in (TITLES | FORMS).items()
        if any(seed not in results.get(name, {}) for seed in seeds)
    ]
    lines = [*INTRODUCTION, "", *HEADER, *rows(TITLES, results), *READING, ""]
    lines += [*differences(TITLES, results, "frozen"), *CURE, ""]
    lines += ["| | linear | beside frozen | new site | beside frozen |", "|---" * 5 + "|"]
    for name, title in TITLES.items():
        if found := results.get(name):
            cured = ("per_plate/linear/top1", "per_plate/new/linear/top1")
            beside = {} if name == "frozen" else results.get("frozen", {})
            numbers = [
                f"{spread(found, key)} | {difference(beside, found, key) or ''}" for key in cured
            ]
            lines.append(f"| {title} | {' | '.join(numbers)} |")
    lines += [*EACH, ""]
    lines += [*HEADER, *rows({"dino": TITLES["dino"]} | FORMS, results)]
    lines += [
        "",
        "Differences to `dino` alone:",
        "",
        *differences(FORMS, results, "dino"),
    ]
    lines += ["", "## What it says", "", *SEEN, "", "By the intervals:", "", *said(results), ""]
    lines += LIMITS
    lines += ["", f"Chosen: {settings(results)}.", ""]
    if lacking:
        lines += [f"Not measured, by seed: {'; '.join(lacking)}.", ""]
    return "\n".join(lines)


def said(results: Mapping[str, Cells]) -> Iterator[str]:
    """What the numbers say of guides, in words, whichever way they are."""
    trained = [name for name in TITLES if name not in ("untrained", "frozen", "shuffled")]
    comparisons = (
        ("Beside the frozen model", trained, "frozen", False),
        ("Guides beside `dino` alone", GUIDED, "dino", False),
        ("Guides beside guides with shuffled metadata", GUIDED, "shuffled", False),
        ("Guides beside training with labels", GUIDED, "labels", False),
        ("Each plate standardized, beside the frozen model with that", trained, "frozen", True),
    )
    for words, names, against, plates in comparisons:
        names = [name for name in names if name in results]
        if names and against in results:
            groups: dict[str, list[str]] = {}
            for name in names:
                of = outcome(results, name, against, plates)
                groups.setdefault(of, []).append(TITLES[name])
            found = [f"*{of}*: {'; '.join(titles)}" for of, titles in groups.items()]
            yield f"- **{words}.** {'. '.join(found)}."
    known = {name: results[name] for name in TITLES if name in results}
    seeds = set.intersection(*(set(cells) for cells in known.values())) if known else set()
    if not seeds:
        return
    best = {
        key: max((mean(cells, seeds, key), name) for name, cells in known.items())
        for key in ("linear/top1", "new/linear/top1", "per_plate/new/linear/top1")
    }
    words = ("at known sites", "at the new site", "at the new site with each plate standardized")
    found = [
        f"{where} {TITLES[name]} ({value:.2f})"
        for (value, name), where in zip(best.values(), words, strict=True)
    ]
    yield f"- **Highest in the mean**: {', '.join(found)}."


def mean(cells: Cells, seeds: Iterable[int], key: str) -> float:
    """The mean over some seeds."""
    return statistics.fmean(cells[seed]["after"][key] for seed in seeds)


INTRODUCTION = """# Adapting a foundation model with metadata

A small ViT is trained by `dino` on plain images, without labels, and exported: the *foundation model*.
Then it is adapted to another domain, of plates with batch effects, in several ways, and what its frozen
features tell is measured. Weights of a large model cannot be had everywhere; this one is trained in a
minute, by anybody. Written by `python docs/benchmarks/adaptation.py`.

- **Data**: `plates`, cells under five stains, 32 x 32 pixels. Foundation: 4096 images without batch
  effects. Adaptation: 2048 images of other mechanisms, on 16 plates of 4 sites, with batch effects
  (`effect = 0.4`). In training 85 % of the images of a mechanism, the label, are of one site; in the test
  split the label and the site are independent. Tests: 1024 images of the same plates, and 1024 of a new
  site.
- **Seeds**: each of five seeds is a world of its own, with its mechanisms, compounds, plates, sites and
  foundation model. World 0 was for trying out, and `effect` was chosen there: with 1.0 the frozen model
  had 0.30, little above chance.
- **Training**: 120 steps of 64 images (the foundation 400), AdamW, two views (crops and flips), 256
  prototypes. Patches have 8 pixels, and the ViT two blocks of width 64.
- **Choice**: by the linear probe on validation images in the first world, of three settings for each way:
  three learning rates or, with guides, rates and one weight for all of them; of two weights in the table
  of guides.
- **Guides**: as FINO describes them: prototypes with momentum keep the compound (up to 1000 classes, most
  of them rare), regression keeps the dose, a reversed gradient suppresses the plate. Ours: Cl-InfoNCE
  keeps the compound, regression the dose, and Fair-CCLK, at the features, suppresses the plate. Both with
  `balance = "gradient"`. FINO's formulas are our own, since its text was not at hand.

## What the features tell

Shares of right predictions, mean ± standard deviation over worlds. *Linear*, *neighbors*: the mechanism,
at the sites of training. *Worst site*: the least of the four. *New site*: the same linear probe there.
*Site*: which of the four it is, of features of data in which site and mechanism are independent: what
leaks, lower is better, 0.25 is chance. *Old task*: the mechanisms of the foundation model's images.
*CKA*: how alike the features are to the frozen model's.
""".splitlines()
READING = """
## Beside the frozen model

Differences to the frozen model in the same worlds, with 95 % intervals by Student's t; inconclusive where
0 lies within. Of the site (MLP) lower is better.
""".splitlines()
CURE = """
## A simple cure: each plate standardized

The same features, each less its mean on the plate, over its deviation there, in training, test and at the
new site, which needs many images of each plate. Differences are those to the frozen model with the same
cure.
""".splitlines()
EACH = """
## Each guide alone

Beside `dino`, with `balance = "gradient"` and the rate 3e-3; then guides together: the three as FINO's,
with and without balance, and ours.
""".splitlines()
SEEN = """\
- **A simple cure is ahead of all training.** Standardizing the frozen model's features on each plate
  gives more in the mean, at known sites and at the new one, than any adaptation without it. On top of it
  no guides are clearly better than the frozen model, and training with labels is worse at the new site.
  Where plates can be standardized, do that first.
- **Without it, guides win over the frozen model and over `dino` alone**, if all weights learn; FINO's are
  about as good as labels, ours a little less. With shuffled metadata no gain was seen.
  `dino` alone learns more of the sites and little else, InfoNCE still more of them.
- **What is kept did more than what is suppressed.** Of the guides alone, prototypes of the compound gain
  most in the mean. A compound has one mechanism, so they are labels of a kind, with most classes rare.
- **Reversal does not hide the plate.** With it the site is read more than with `dino` alone: the head is
  fooled, and a new probe is not. A uniform target does not hide it either.
- **Least squares and HSIC hide most**, and the mechanism is read less in the mean, with least squares
  clearly: in training both go together. Both lose some of the old task, HSIC more. Fair-CCLK hides less,
  and no loss of either was seen.
- **Balance**: the three guides gain more in the mean with `balance = "gradient"`, at these weights.
- **LoRA** with the same guides gained less than all weights did, and kept no more of the old task, which
  no way of the first table clearly lost: the new domain is near to the old one.
""".splitlines()
LIMITS = """## What it does not say

- It is one small network and one drawn domain; 120 steps are few, and longer training may change the
  order. Most of the chosen rates are the highest that were tried.
- Five worlds show large differences alone. A hundred comparisons at 95 % have a few that are luck.
- The validation images have mechanism and site independent, as only a planned experiment has them.
  Without such data one would choose other settings.
- Plates of the test split are those of training; only the new site has plates of its own.
""".splitlines()

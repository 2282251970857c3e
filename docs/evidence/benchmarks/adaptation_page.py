"""The page that ``docs/evidence/benchmarks/adaptation.py`` writes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
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
            # What was not trained is compared with itself.
            own = {"features/cka"} if name in ("untrained", "frozen") else ()
            numbers = " | ".join("" if key in own else spread(found, key) for key in COLUMNS)
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
    lines += ["", *HOW, ""]
    if lacking:
        lines += [f"Not measured, by seed: {'; '.join(lacking)}.", ""]
    return "\n".join(lines)


INTRODUCTION = """# Adapting a foundation model with metadata

**Guides gain 0.08 to 0.12 over a frozen foundation model if all weights learn, and Fair-CCLK without
guides gains as much. A simple cure gains more, 0.18 at known sites and 0.26 at a new one: first
standardize the frozen features on each plate.**

- On top of the cure, no guide is shown to be better than the frozen model. InfoNCE is, by 0.03 at known
  sites, and training with labels is worse at a new site.
- Without the cure, guides are better than `dino` alone. With shuffled metadata no gain is shown. `dino`
  alone learns more of the sites; no other gain is shown.
- Of the guides alone, prototypes of the compound gain most. A compound has one mechanism, so its id is a
  label of a kind.
- Reversal and a uniform target do not hide the plate: a new probe reads the site. Least squares and HSIC
  hide about a third of what it reads above chance; they lose some of the old task and, in the means, of
  the mechanism.
- LoRA gains less than all weights do, and keeps no more of the old task.

## What the features tell

Shares of right predictions, mean ± standard deviation over worlds. *Linear*, *neighbors*: the
mechanism, at the sites of training. *Worst site*: the least of the four. *New site*: the same linear
probe there. *Site*: which of the four it is, where site and mechanism are independent; lower is better,
0.25 is chance. *Old task*: the mechanisms of the foundation model's images. *CKA*: similarity to the
features before this training.
""".splitlines()
READING = """
## Beside the frozen model

Differences in the same worlds, with 95 % intervals by Student's t; inconclusive where 0 lies within.
""".splitlines()
CURE = """
## Each plate standardized

The same features, each less its mean on the plate, over its deviation there, which needs many images of
each plate. Differences are to the frozen model with the same cure.
""".splitlines()
EACH = """
## Each guide alone

Beside `dino`, with `balance = "gradient"` and the rate 3e-3; then guides together.
""".splitlines()
HOW = """## How it was done

`python docs/evidence/benchmarks/adaptation.py` trains a small ViT by `dino` on plain images (the
*foundation model*), and adapts it to plates with batch effects.

- **Data**: `plates`, cells under five stains, 32 x 32 pixels. Foundation: 4096 images without batch
  effects. Adaptation: 2048 images of other mechanisms on 16 plates of 4 sites, `effect = 0.4`; 85 % of
  the images of a mechanism are of one site. In validation and in both tests, 1024 images each of
  these plates and of a new site, mechanism and site are independent.
- **Worlds**: each of five seeds has its own mechanisms, plates, sites and foundation model. `effect`
  was chosen in a sixth.
- **Training**: 120 steps of 64 images (the foundation 400), AdamW, crops and flips, 256 prototypes;
  patches of 8 pixels, two blocks of width 64.
- **Choice**: by the linear probe on validation images of the first world, which is reported too. There
  were three rates, or three pairs of a rate and a weight for all guides; two weights for each guide alone
  and without `balance`.
- **Guides**: as FINO describes them, by formulas of ours: prototypes with
  momentum keep the compound, regression the dose, a reversed gradient suppresses the plate. *Guides of
  ours*: Cl-InfoNCE, regression, and Fair-CCLK at the features.
- **Limits**: one small network, one drawn domain, few steps. Five worlds show large differences alone, and
  of a hundred comparisons a few are luck.
""".splitlines()

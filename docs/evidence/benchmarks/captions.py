"""Measure the two examples of captions over three seeds; write the table of train-on-captions.

Run it in the repository's root as ``python docs/evidence/benchmarks/captions.py``; a run takes some
minutes.  A run
that ``captions.json`` has already is not trained again; ``--quick`` trains one epoch of one seed.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pages import parser

import ccl_plugins as ccl

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "train-on-captions.md"
TITLES = {"captions": "InfoNCE", "captions_blind_to_color": "Fair-InfoNCE on color"}
SEEDS = (0, 1, 2)
METRICS = {
    "zero_shot/top1": ("digit by prompt, 10 classes", 1 / 10),
    "zero_shot-hue/top1": ("hue by prompt, 7 classes", 1 / 7),
    "zero_shot-shade/top1": ("dark or light by prompt", 1 / 2),
    "linear/top1": ("digit, linear probe of the image features", 1 / 10),
    "color/r2": ("color, R² of a linear regression", 0.0),
    "cross_retrieval/image_to_text_recall_at_5": (
        "the caption is among the 5 nearest of 266",
        5 / 266,
    ),
}
Run = dict[str, Any]


def train(example: str, seed: int, **settings: Any) -> Run:
    """The metrics of an example before and after training with a seed."""
    pipeline = ccl.Pipeline.from_toml(ROOT / "examples" / f"{example}.toml", seed=seed, **settings)
    with tempfile.TemporaryDirectory() as folder:
        run = pipeline.fit(out=folder, progress=False)
        return {"example": example, "seed": seed, "before": run.before, "after": run.evaluate()}


def table(runs: Sequence[Run]) -> str:
    """Mean and standard deviation (n - 1) of each metric, before and after training."""
    lines = [
        "| | chance | untrained | " + " | ".join(TITLES.values()) + " |",
        "|---|---|---|---|---|",
    ]
    for metric, (words, chance) in METRICS.items():
        groups = [[run["before"][metric] for run in runs if run["example"] == "captions"]]
        groups += [[r["after"][metric] for r in runs if r["example"] == each] for each in TITLES]
        spread = [
            f"{statistics.fmean(group):.2f} ± {statistics.stdev(group) if len(group) > 1 else 0:.2f}"
            for group in groups
        ]
        lines.append(f"| {words} | {chance:.2f} | " + " | ".join(spread) + " |")
    return "\n".join(lines)


def measured(file: Path) -> list[Run]:
    """All runs, those that the file lacks trained and added to it."""
    runs: list[Run] = json.loads(file.read_text()) if file.exists() else []
    known = {(run["example"], run["seed"]) for run in runs}
    for seed in SEEDS:
        for example in TITLES:
            if (example, seed) not in known:
                runs.append(train(example, seed))
                file.write_text(json.dumps(runs, indent=1) + "\n")
    return runs


def main() -> None:
    """Measure, and write the table into the page."""
    options = parser(__doc__, "one epoch of one seed").parse_args()
    runs = (
        [train(example, 0, epochs=1, warmup_epochs=0) for example in TITLES]
        if options.quick
        else measured(options.out / "captions.json")
    )
    rows = table(runs)
    print(rows)
    if not options.quick:
        text = PAGE.read_text()
        pattern = r"\| \| chance \|.*?(?=\n\n)"
        PAGE.write_text(re.sub(pattern, lambda _: rows, text, count=1, flags=re.DOTALL))


if __name__ == "__main__":
    main()

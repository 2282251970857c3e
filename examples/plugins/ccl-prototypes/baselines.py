"""Train the five examples over seeds, and write their probes into the README.

Run it as ``python baselines.py``.  A run that ``baselines.json`` has already is not trained again;
``--quick`` trains one epoch of one seed and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

import ccl_plugins as ccl

ROOT = Path(__file__).parent
NUMBERS, README = ROOT / "baselines.json", ROOT / "README.md"
TITLES = {
    "simclr": "SimCLR",
    "moco_v2": "MoCo v2",
    "pcl": "PCL",
    "swav": "SwAV",
    "idfd": "IDFD",
}
EPOCHS, SEEDS = 8, (0, 1, 2)
METRICS = ("linear/top1", "knn/top1")
TABLE = re.compile(r"(?<=<!-- baselines -->\n).*?(?=<!-- end -->)", re.DOTALL)


def train(name: str, seed: int, epochs: int) -> dict[str, Any]:
    """The metrics of an example before and after training."""
    pipeline = ccl.Pipeline.from_toml(ROOT / f"examples/{name}.toml", seed=seed, epochs=epochs)
    with tempfile.TemporaryDirectory() as folder:
        run = pipeline.fit(out=folder, progress=False)
        return {
            "example": name,
            "seed": seed,
            "epochs": epochs,
            "before": run.before,
            "after": run.evaluate(),
        }


def spread(values: list[float]) -> str:
    """Mean and standard deviation (n - 1)."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.3f} ± {deviation:.3f}"


def table(runs: list[dict[str, Any]]) -> str:
    """A row per example, and one of the untrained networks of all runs."""
    lines = ["| | linear probe, top-1 | 20 neighbors, top-1 |", "|---|---|---|"]
    untrained = {(run["seed"], *(run["before"][m] for m in METRICS)) for run in runs}
    rows = [("untrained", [dict(zip(METRICS, each[1:], strict=True)) for each in untrained])]
    rows += [(t, [r["after"] for r in runs if r["example"] == name]) for name, t in TITLES.items()]
    for title, found in rows:
        if found:
            cells = [spread([metrics[m] for metrics in found]) for m in METRICS]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, and write numbers and table."""
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--quick", action="store_true")
    quick = command.parse_args().quick
    runs = [] if quick or not NUMBERS.exists() else json.loads(NUMBERS.read_text())
    for seed in SEEDS[:1] if quick else SEEDS:
        for name in TITLES:
            if not any((run["example"], run["seed"]) == (name, seed) for run in runs):
                runs.append(train(name, seed, 1 if quick else EPOCHS))
                print(name, seed, runs[-1]["after"], flush=True)
            if not quick:
                NUMBERS.write_text(json.dumps(runs, indent=1) + "\n")
    print(table(runs))
    if not quick:
        README.write_text(TABLE.sub(lambda _: table(runs) + "\n", README.read_text()))


if __name__ == "__main__":
    main()

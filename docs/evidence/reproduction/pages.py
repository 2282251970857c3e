"""Write an experiment's numbers: from the runs of its sweep into its results, and from these into its page.

``python docs/evidence/reproduction/pages.py color_mnist`` reads the sweep's folder, which
``examples/reproduction/color_mnist.toml`` names, and writes

- ``examples/reproduction/results/color_mnist.csv``: a row for each run;
- ``examples/reproduction/results/color_mnist.json``: for each configuration the mean, the deviation and the
  value of each seed, before training, on the validation part and on the test split, and the paired
  differences that the page shows;
- tables and pictures of ``docs/evidence/reproduction/color_mnist.md``, from the JSON file alone.

``gpu_calibration`` is the sweep ``gpu/calibration.toml`` there; so are all names that begin with ``gpu_``.
Without the sweep's folder the results stay as they are, and the page is written from them.  A page says in
comments what it shows::

    <!-- table color_mnist: linear/top1, color/r2; against InfoNCE
    InfoNCE | 84.1 ± 1.8
    Fair-CCLK, kernel cosine | 86.4 ± 0.9
    -->
    <!-- end -->

A metric is that of the test split, or with ``validation`` before it, as ``validation linear/top1``, that
of the validation part.  A line names a configuration, with ``as`` what it is called in the table, and gives
the paper's value of each metric, if there is one; without lines all configurations are shown.  A reference
that ends with a colon, as ``against regular:``, compares ``linear: CL`` with ``regular: CL``.

``<!-- figure NAME: y = METRIC, x = KEY -->`` draws a metric over the values of a key, with ``, log`` on a
logarithmic axis, and ``<!-- curves NAME: y = SCALAR -->`` a scalar over the training.  With ``, only =
WORD`` a picture has the configurations whose name begins with the word and a colon.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ccl_plugins.experiments import Run, paired, spread
from ccl_plugins.experiments import curves as read_curves
from ccl_plugins.experiments.results import visible
from ccl_plugins.figures.style import FAINT, MARKERS, RUNS, figure, styled, svg
from ccl_plugins.sweep import SEED, Cell, Sweep, cells_of, labels_of, rows_of

PAGES = Path(__file__).parent
ROOT = PAGES.parents[2]
README = ROOT / "README.md"
EXPERIMENTS = ROOT / "examples" / "reproduction"
RESULTS = EXPERIMENTS / "results"
UNTRAINED = "untrained"
METRICS = {
    "linear/top1": "linear probe, top-1 (%)",
    "knn/top1": "nearest neighbors, top-1 (%)",
    "color/r2": "color, R²",
    "mlp-color/r2": "color, R² of an MLP",
    "angle/r2": "angle, R²",
    "mlp-angle/r2": "angle, R² of an MLP",
    "color/mse255": "color, squared error (0 to 255)",
    "linear-holes/top1": "holes, linear probe (%)",
    "linear-slant/top1": "slant, linear probe (%)",
    "dependence-color/dcor": "color, distance correlation",
    "distance": "distance of the negatives' colors, in that of all others",
    "brightness": "the same for brightness alone",
    "own": "weight of the own key, in that of all",
}
"""What metrics are called in tables and pictures; others by their own names."""

BLOCK = re.compile(
    r"<!-- (?P<kind>table|figure|curves) (?P<name>\w+): (?P<options>[^\n]*?)"
    r"(?:\n(?P<lines>.*?))?\s*-->\n(?P<body>.*?)<!-- end -->",
    re.DOTALL,
)
Results = dict[str, Any]


def sweep_of(name: str) -> Path:
    """The file of an experiment's sweep."""
    folder = EXPERIMENTS / "gpu" if name.startswith("gpu_") else EXPERIMENTS
    return folder / f"{name.removeprefix('gpu_')}.toml"


def measure(name: str, page: str) -> Results:
    """The results of a sweep whose cells are all done; its rows are written as CSV.

    Raises:
        ValueError: If a cell is not done.
    """
    sweep = Sweep.from_toml(sweep_of(name))
    cells = cells_of(sweep)
    if missing := [f"{each.name} is {each.state}" for each in cells if each.state != "done"]:
        raise ValueError(f"{sweep.out}: cell {missing[0]}; {len(missing)} of {len(cells)} lack")
    RESULTS.mkdir(exist_ok=True)
    rows = rows_of(sweep, cells)
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    groups: dict[str, list[Cell]] = {}
    for cell, label in zip(cells, labels_of([each.values for each in cells]), strict=True):
        groups.setdefault(label, []).append(cell)
    scalars = {
        _options(match["options"])["y"]
        for match in BLOCK.finditer(page)
        if (match["kind"], match["name"]) == ("curves", name)
    }
    found = [_configuration(sweep, label, group, scalars) for label, group in groups.items()]
    return {"experiment": name, "configurations": found}


def _configuration(
    sweep: Sweep, label: str, cells: Sequence[Cell], scalars: set[str]
) -> dict[str, Any]:
    seeds = [each.values.get(SEED, 0) for each in cells]
    result: dict[str, Any] = {
        "label": label,
        "values": {k: v for k, v in cells[0].values.items() if k not in ("name", SEED)},
        "seeds": seeds,
    }
    for time in ("before", "validation", "test"):
        result[time] = {
            metric: moments(
                {
                    s: float(getattr(c, time)[metric].value)
                    for s, c in zip(seeds, cells, strict=True)
                }
            )
            for metric in getattr(cells[0], time)
        }
    if scalars:
        logged = [read_curves(Run(sweep.out / "cells" / each.name)) for each in cells]
        if missing := {s for s in scalars if not all(s in each for each in logged)}:
            raise ValueError(
                f"{label}: {sorted(missing)} was not logged; there is {sorted(logged[0])}"
            )
        result["curves"] = {
            scalar: [
                [step, statistics.fmean(values), statistics.stdev(values), *values]
                for step, *values in _by_step([dict(each[scalar]) for each in logged])
            ]
            for scalar in sorted(scalars)
        }
    return result


def _by_step(curves: Sequence[Mapping[int, float]]) -> Iterator[tuple[Any, ...]]:
    """Each step that all seeds have, with their values."""
    for step in curves[0]:
        if all(step in each for each in curves):
            yield step, *(each[step] for each in curves)


def moments(by_seed: Mapping[Any, float]) -> dict[str, Any]:
    """Mean and standard deviation (n - 1) over the seeds."""
    values = list(by_seed.values())
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "deviation": deviation, "by_seed": by_seed}


def half_width(deviation: float | None, n: int) -> float:
    """Half of the 95 % interval of a mean, by Student's t; 0 if all values are the same or there is one."""
    return visible(n) * deviation if deviation else 0.0


def with_interval(mean: float, half: float) -> str:
    """A number with its interval: ``37.4 (35.2 to 39.7)``; half of its width has two digits."""
    if not half:
        return spread(mean)
    places = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean:.{places}f} ({mean - half:.{places}f} to {mean + half:.{places}f})"


def record(experiment: str, values: Mapping[str, Mapping[str, Mapping[Any, float]]]) -> None:
    """Write results of an experiment that trains nothing: by label and metric, the value of each seed."""
    found = [
        {
            "label": label,
            "values": {},
            "seeds": [*map(int, next(iter(metrics.values())))],
            "before": {},
            "test": {metric: moments(by_seed) for metric, by_seed in metrics.items()},
        }
        for label, metrics in values.items()
    ]
    print(_write({"experiment": experiment, "configurations": found, "tests": {}}))


def _write(results: Results) -> Path:
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{results['experiment']}.json"
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return file


def _options(text: str) -> dict[str, str]:
    """The options of a figure: ``y = a, x = b, log``."""
    parts = [part.partition("=") for part in text.split(",")]
    return {key.strip(): value.strip() for key, _, value in parts}


def tests_of(results: Results, page: str) -> dict[str, Any]:
    """The paired tests of the tables on a page, by the reference, the configuration and the metric."""
    found: dict[str, Any] = {}
    for match in BLOCK.finditer(page):
        metrics, reference, lines = _table(match)
        if match["kind"] != "table" or match["name"] != results["experiment"] or not reference:
            continue
        for label in [line[0] for line in lines] or _labels(results):
            other = _reference(reference, label)
            if label not in (UNTRAINED, other):
                for metric in metrics:
                    first, second = (_of(results, each, metric) for each in (other, label))
                    if first and second:
                        test = asdict(paired(first["by_seed"], second["by_seed"]))
                        found.setdefault(other, {}).setdefault(label, {})[metric] = test
    return found


def _table(match: re.Match[str]) -> tuple[list[str], str, list[list[str]]]:
    """The metrics, the reference, and of each line the configuration, its title and the paper's values."""
    metrics, _, against = match["options"].partition(";")
    reference = against.strip().removeprefix("against").strip()
    lines = []
    for line in filter(str.strip, (match["lines"] or "").splitlines()):
        label, *paper = (part.strip() for part in line.split("|"))
        label, _, title = label.partition(" as ")
        lines.append([label, title or label, *paper])
    return [each.strip() for each in metrics.split(",")], reference, lines


def _reference(reference: str, label: str) -> str:
    """The configuration that a label is compared with."""
    return f"{reference} {label.partition(': ')[2]}" if reference.endswith(":") else reference


def _labels(results: Results) -> list[str]:
    return [each["label"] for each in results["configurations"]]


def _of(results: Results, label: str, metric: str, time: str = "test") -> dict[str, Any] | None:
    for each in results["configurations"]:
        if each["label"] == label:
            found: dict[str, Any] | None = each[time].get(metric)
            return found
    raise ValueError(f"no configuration is called {label!r}; there are {_labels(results)}")


def write_table(match: re.Match[str], results: Results) -> str:
    """A table: what the paper has, what was measured here, and the difference to the reference."""
    metrics, reference, lines = _table(match)
    lines = lines or [[label, label] for label in _labels(results)]
    first = next((line[0] for line in lines if line[0] != UNTRAINED), "")
    measured = results["configurations"][0]["before"] and any(
        _time(m)[0] == "test" for m in metrics
    )
    if measured and UNTRAINED not in [line[0] for line in lines]:
        lines = [[UNTRAINED, UNTRAINED], *lines]
    printed = [
        any(len(line) > i + 2 and line[i + 2] for line in lines) for i in range(len(metrics))
    ]
    heads = [""]
    for metric, has_paper in zip(metrics, printed, strict=True):
        time, named = _time(metric)
        shown = METRICS.get(named, named) + (", validation" if time == "validation" else "")
        heads += [f"{shown}: paper", f"{shown}: here"] if has_paper else [shown]
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for label, title, *paper in lines:
        cells = [title]
        for i, metric in enumerate(metrics):
            if printed[i]:
                cells.append(paper[i] if len(paper) > i else "")
            cells.append(_cell(results, label, metric, reference, first))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _cell(results: Results, label: str, metric: str, reference: str, first: str) -> str:
    untrained = label == UNTRAINED
    time, metric = _time(metric)
    if untrained and time != "test":  # before training, the test split alone was measured
        return ""
    found = _of(results, first if untrained else label, metric, "before" if untrained else time)
    if not found:
        return ""
    unit = _unit(metric)
    half = half_width(found["deviation"], len(found["by_seed"]))
    text = with_interval(unit * found["mean"], unit * half)
    test = results["tests"].get(_reference(reference, label), {}).get(label, {}).get(metric)
    if time != "test" or not test or test["difference"] is None:  # tests are of the test split
        return text
    half = half_width(test["deviation"], test["n"])
    difference = with_interval(unit * test["difference"], unit * half)
    return f"{text}; {'' if difference.startswith('-') else '+'}{difference}"


def _time(metric: str) -> tuple[str, str]:
    """When a metric of a table was measured, and its name."""
    before, _, name = metric.rpartition(" ")
    return before or "test", name


def _unit(metric: str) -> int:
    """100 for metrics that are shown in percent, as papers have them."""
    return 100 if metric.endswith("/top1") else 1


@styled
def draw(match: re.Match[str], results: Results) -> Any:
    """A metric over a key, with its interval over the seeds, or the mean of a scalar over the training."""
    options = _options(match["options"])
    canvas = figure(5.6, 3.2)
    axes = canvas.subplots()
    axes.grid(visible=True)
    y = options["y"]
    groups: dict[str, list[tuple[Any, float, float]]] = {}
    only = f"{options['only']}: " if "only" in options else ""
    for each in results["configurations"]:
        if not each["label"].startswith(only):
            continue
        if match["kind"] == "curves":
            if points := each.get("curves", {}).get(y):
                groups[each["label"].removeprefix(only)] = [tuple(point[:3]) for point in points]
        elif (x := each["values"].get(options["x"])) is not None and y in each["test"]:
            name = each["label"].partition(",")[0]
            value, unit = each["test"][y], _unit(y)
            error = unit * half_width(value["deviation"], len(value["by_seed"]))
            groups.setdefault(name, []).append((x, unit * value["mean"], error))
    for i, (name, points) in enumerate(groups.items()):
        xs, ys, errors = zip(*sorted(points), strict=True)
        look: dict[str, Any] = {"color": RUNS[i % len(RUNS)], "label": name}
        if match["kind"] == "curves":
            axes.plot(xs, ys, "-" if i < len(RUNS) else "--", **look)
        else:
            axes.errorbar(xs, ys, errors, marker=MARKERS[i % len(MARKERS)], capsize=3, **look)
    if match["kind"] == "figure" and y in (before := results["configurations"][0]["before"]):
        axes.axhline(_unit(y) * before[y]["mean"], color=FAINT, linestyle="--", label=UNTRAINED)
    if "log" in options:
        log_axis(axes, {x for points in groups.values() for x, *_ in points})
    axes.set_xlabel("step" if match["kind"] == "curves" else options["x"])
    axes.set_ylabel(METRICS.get(y, y))
    axes.legend()
    return canvas


def log_axis(axes: Any, values: Iterable[float]) -> None:
    """A logarithmic axis with a mark at each value."""
    axes.set_xscale("log")
    marks = sorted(values)
    axes.set_xticks(marks, [f"{mark:.4g}" for mark in marks])
    axes.minorticks_off()


def write_page(page: str, results: Mapping[str, Results], folder: Path) -> str:
    """The page with its tables and pictures; the pictures are written into the folder."""

    def block(match: re.Match[str]) -> str:
        own = results.get(match["name"])
        if own is None:
            return match[0]
        if match["kind"] == "table":
            body = write_table(match, own)
        else:
            options = _options(match["options"])
            about = "over training" if match["kind"] == "curves" else f"over {options['x']}"
            words = [
                match["name"],
                options["y"],
                options.get("x", "training"),
                options.get("only", ""),
            ]
            stem = re.sub(r"[^a-z0-9]+", "-", "-".join(filter(None, words)).lower())
            (folder / f"{stem}.svg").write_text(svg(draw(match, own)))
            body = f"![{METRICS.get(options['y'], options['y'])} {about}]({stem}.svg)\n"
        return match[0][: match.start("body") - match.start()] + body + "<!-- end -->"

    return BLOCK.sub(block, page)


def main(words: Sequence[str] | None = None) -> None:
    """Write the results and the pages of the named experiments."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments; none: all with results"
    )
    known = sorted(each.stem for each in RESULTS.glob("*.json"))
    for name in parser.parse_args(words).names or known:
        pages = {p: p.read_text() for p in [README, *PAGES.glob("*.md")]}
        pages = {p: text for p, text in pages.items() if re.search(rf"<!-- \w+ {name}: ", text)}
        text = "\n".join(pages.values())
        file = RESULTS / f"{name}.json"
        sweep = sweep_of(name)
        if sweep.exists() and (Sweep.from_toml(sweep).out / "sweep.json").exists():
            results = measure(name, text)
        elif file.exists():
            results = json.loads(file.read_text())
        else:
            parser.error(f"{name}: run ccl sweep {sweep.relative_to(ROOT)} first")
        # Seeds are words in JSON; both ways the same.
        results = json.loads(json.dumps(results))
        results["tests"] = tests_of(results, text)
        _write(results)
        for page, own in pages.items():
            page.write_text(write_page(own, {name: results}, PAGES))
        print(file)


if __name__ == "__main__":
    main()

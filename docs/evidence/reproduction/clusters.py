"""Measure what the clusters of the experiments tell of the labels, beside the accuracy that they lead to.

``python docs/evidence/reproduction/clusters.py`` fits the clusters of ``cl_infonce``,
``cl_infonce_attributes`` and ``insufficient_samples`` on their training splits and writes

- ``examples/reproduction/results/NAME_information.csv``: for each configuration the number of clusters,
  I(Z;T) and H(Z|T) in bits;
- ``examples/reproduction/results/wider_information.csv``: the same of the authors' clusters of WIDER,
  beside the authors' numbers, from ``data/wider``;
- tables and pictures of ``cl_infonce.md`` and ``insufficient_samples.md``, from these files and from the
  results that ``pages.py`` wrote.

It takes a minute and trains nothing.  Without a data set its file stays as it is.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import half_width, log_axis, with_interval
from scipy.stats import spearmanr

from ccl_plugins.experiments import Pipeline
from ccl_plugins.figures.style import FAINT, MARKERS, RUNS, figure, styled, svg
from ccl_plugins.information.entropies import Entropies, crossing, information, to_unit
from ccl_plugins.sweep import Sweep, labels_of

ROOT = Path(__file__).parents[3]
EXPERIMENTS = ROOT / "examples" / "reproduction"
RESULTS = EXPERIMENTS / "results"
PAGES = Path(__file__).parent
NAMES = ("cl_infonce", "cl_infonce_attributes", "insufficient_samples")
METRIC = "linear/top1"
Row = Mapping[str, Any]


def measure(name: str) -> list[Row]:
    """A row for each configuration of a sweep whose condition makes clusters before training."""
    sweep = Sweep.from_toml(EXPERIMENTS / f"{name}.toml")
    rows = {}
    for label, cell in zip(labels_of(sweep.cells), sweep.cells, strict=True):
        pipeline = Pipeline.from_dict(sweep.configuration(cell))
        kinds = {each.value_type for each in pipeline.built_conditions.values()}
        if label not in rows and kinds == {"categorical"}:
            (point,), _ = pipeline.plane()
            rows[label] = {
                "configuration": label,
                "clusters": point.values,
                "samples per cluster": point.samples / point.values,
                "I(Z;T)": point.information.mutual,
                "H(Z|T)": point.information.conditional_entropy,
            }
    return list(rows.values())


def measure_wider() -> list[Row]:
    """The authors' clusters of WIDER by k attributes, and their numbers; their Y is Z."""
    folder = ROOT / "data" / "wider"
    rows = [row for row in _read(folder / "clusters_train.csv") if row[""] != "-1"]
    theirs = {row[""]: row for row in _read(folder / "information.csv")}
    labels = [int(row["class"]) for row in rows]
    found: list[Row] = []
    for k in range(1, 15):
        name = f"label_gran_{k}"
        clusters = [int(row[name]) for row in rows]
        ours = information(clusters, labels)
        found.append(
            {
                "k": k,
                "clusters": len(set(clusters)),
                "I(Z;T)": ours.mutual,
                "I(Z;T), authors": theirs[name]["I(Y;T)"],
                "H(Z|T)": ours.conditional_entropy,
                "H(Z|T), authors": theirs[name]["H(Y|T)"],
            }
        )
    return found


def scaled(rows: Sequence[Row]) -> tuple[list[float], list[float], int]:
    """I(Z;T) and -H(Z|T), each brought to 0 to 1, and the row that is nearest to their crossing."""
    about = [Entropies(math.nan, float(row["H(Z|T)"]), float(row["I(Z;T)"])) for row in rows]
    up = to_unit(about, "mutual").tolist()
    down = (1 - to_unit(about, "conditional_entropy")).tolist()
    return up, down, crossing(about)


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows as a table; numbers with a decimal point have three of their digits."""
    lines = ["| " + " | ".join(name.replace("|", r"\|") for name in columns) + " |"]
    lines.append("|---" * len(columns) + "|")
    lines += ["| " + " | ".join(_text(row[name]) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    try:
        number = float(value)
    except ValueError:
        return str(value)
    return str(value) if number.is_integer() and "." not in str(value) else f"{number:.3g}"


def with_accuracy(name: str, metric: str = METRIC) -> list[dict[str, Any]]:
    """The rows of a file, each with its accuracy in percent and its interval; none without results."""
    file = RESULTS / f"{name}.json"
    found = json.loads(file.read_text())["configurations"] if file.exists() else []
    values = {each["label"]: each["test"][metric] for each in found}
    rows: list[dict[str, Any]] = []
    for row in _read(RESULTS / f"{name}_information.csv"):
        if value := values.get(row["configuration"]):
            mean = 100 * value["mean"]
            half = 100 * half_width(value["deviation"], len(value["by_seed"]))
            shown = with_interval(mean, half)
            rows.append({**row, "mean": mean, "half": half, "top-1 (%)": shown})
    return rows


def write_plane() -> str:
    """Accuracy over I(Z;T) and H(Z|T)."""
    rows = with_accuracy("cl_infonce")
    if not rows:
        return ""
    rows.sort(key=lambda row: (-float(row["I(Z;T)"]), float(row["H(Z|T)"])))
    (PAGES / "cl-infonce-plane.svg").write_text(svg(draw_plane(rows)))
    most = float(rows[0]["I(Z;T)"])
    nothing_else = [row for row in rows if float(row["H(Z|T)"]) < 1e-6]
    all_labels = [row for row in rows if float(row["I(Z;T)"]) > most - 1e-6]
    lines = []
    for words, part, key in (
        ("H(Z\\|T) = 0, accuracy and I(Z;T)", nothing_else, "I(Z;T)"),
        ("I(Z;T) = H(T), accuracy and H(Z\\|T)", all_labels, "H(Z|T)"),
        ("all, accuracy and I(Z;T)", rows, "I(Z;T)"),
        ("all, accuracy and H(Z\\|T)", rows, "H(Z|T)"),
    ):
        found = spearmanr([row["mean"] for row in part], [float(row[key]) for row in part])
        lines.append({"configurations": words, "n": len(part), "rank correlation": found.statistic})
    columns = ["configuration", "clusters", "I(Z;T)", "H(Z|T)", "top-1 (%)"]
    picture = "![accuracy over the plane of I(Z;T) and H(Z|T)](cl-infonce-plane.svg)\n"
    second = table(lines, ["configurations", "n", "rank correlation"]).replace("\\\\|", "\\|")
    return f"{table(rows, columns)}\n{second}\n{picture}"


@styled
def draw_plane(rows: Sequence[Row]) -> Any:
    """The configurations on the plane, colored by their accuracy."""
    canvas = figure(5.6, 3.6)
    axes = canvas.subplots()
    axes.grid(visible=True)
    x, y = ([float(row[key]) for row in rows] for key in ("H(Z|T)", "I(Z;T)"))
    points = axes.scatter(x, y, c=[row["mean"] for row in rows], s=60, zorder=3)
    for row, at, above in zip(rows, x, y, strict=True):
        axes.annotate(f"{row['mean']:.1f}", (at, above), (5, 5), textcoords="offset points", size=7)
    canvas.colorbar(points, label="linear probe, top-1 (%)")
    axes.set_xlabel("H(Z|T), bits")
    axes.set_ylabel("I(Z;T), bits")
    axes.margins(0.12)
    return canvas


def write_granularity() -> str:
    """Accuracy over the number of attributes, and the crossing."""
    rows = [
        {**row, "k": int(row["configuration"].rpartition(" ")[2])}
        for row in with_accuracy("cl_infonce_attributes")
        if row["configuration"].startswith("attributes, k")
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: row["k"])
    up, down, crossed = scaled(rows)
    for i, row in enumerate(rows):
        row["scaled I"], row["scaled -H"] = f"{up[i]:.2f}", f"{down[i]:.2f}"
    (PAGES / "cl-infonce-granularity.svg").write_text(
        svg(draw_granularity(rows, up, down, crossed))
    )
    columns = ["k", "clusters", "I(Z;T)", "H(Z|T)", "scaled I", "scaled -H", "top-1 (%)"]
    best = max(rows, key=lambda row: row["mean"])["k"]
    return (
        f"{table(rows, columns)}\nThe crossing is nearest to k = {rows[crossed]['k']}; the most accurate is"
        f" k = {best}.\n\n![accuracy over k, and the crossing](cl-infonce-granularity.svg)\n"
    )


@styled
def draw_granularity(
    rows: Sequence[Row], up: Sequence[float], down: Sequence[float], crossed: int
) -> Any:
    """Accuracy and the scaled information over k."""
    canvas = figure(5.6, 4.4)
    above, below = canvas.subplots(2, 1, sharex=True)
    ks = [row["k"] for row in rows]
    above.errorbar(ks, [r["mean"] for r in rows], [r["half"] for r in rows], marker="o", capsize=3)
    above.set_ylabel("linear probe, top-1 (%)")
    below.plot(ks, up, marker=MARKERS[0], color=RUNS[1], label="I(Z;T)")
    below.plot(ks, down, marker=MARKERS[1], color=RUNS[2], label="-H(Z|T)")
    below.set_ylabel("scaled to 0 to 1")
    below.set_xlabel("k, the number of attributes")
    below.legend()
    for axes in (above, below):
        axes.grid(visible=True)
        axes.axvline(ks[crossed], color=FAINT, linestyle="--")
    return canvas


def write_wider() -> str:
    """The authors' numbers of WIDER and ours."""
    rows = [dict(row) for row in _read(RESULTS / "wider_information.csv")]
    up, down, crossed = scaled(rows)
    for i, row in enumerate(rows):
        row["scaled I"], row["scaled -H"] = f"{up[i]:.2f}", f"{down[i]:.2f}"
    most = max(
        abs(float(row[key]) - float(row[f"{key}, authors"]))
        for row in rows
        for key in ("I(Z;T)", "H(Z|T)")
    )
    return (
        f"{table(rows, list(rows[0]))}\nThe largest difference between our numbers and the authors' is"
        f" {most:.1g} bits; the crossing is nearest to k = {rows[crossed]['k']}.\n"
    )


def write_small_clusters() -> str:
    """Accuracy over the mean number of samples of a cluster, with the kernel objective as a line."""
    rows = with_accuracy("insufficient_samples")
    if not rows:
        return ""
    file = RESULTS / "insufficient_samples.json"
    found = json.loads(file.read_text())["configurations"]
    lines = {
        each["label"]: 100 * each["test"][METRIC]["mean"]
        for each in found
        if "CCLK" in each["label"]
    }
    (PAGES / "insufficient-samples.svg").write_text(svg(draw_small_clusters(rows, lines)))
    columns = ["configuration", "clusters", "samples per cluster", "I(Z;T)", "H(Z|T)", "top-1 (%)"]
    picture = "![accuracy over samples per cluster](insufficient-samples.svg)\n"
    return f"{table(rows, columns)}\n{picture}"


@styled
def draw_small_clusters(rows: Sequence[Row], lines: Mapping[str, float]) -> Any:
    """Curves of the clusters, lines of the kernel."""
    canvas = figure(5.6, 3.4)
    axes = canvas.subplots()
    axes.grid(visible=True)
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        name = row["configuration"].partition(",")[0]
        point = (float(row["samples per cluster"]), row["mean"], row["half"])
        groups.setdefault(name, []).append(point)
    for i, (name, points) in enumerate(groups.items()):
        xs, ys, errors = zip(*sorted(points), strict=True)
        look: dict[str, Any] = {"color": RUNS[i], "marker": MARKERS[i], "label": name}
        axes.errorbar(xs, ys, errors, capsize=3, **look)
    for i, (name, value) in enumerate(lines.items()):
        axes.axhline(value, color=RUNS[i], linestyle="--", label=name)
    log_axis(axes, {x for points in groups.values() for x, *_ in points})
    axes.set_xlabel("mean samples per cluster")
    axes.set_ylabel("linear probe, top-1 (%)")
    axes.legend()
    return canvas


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _write(file: Path, rows: Sequence[Row]) -> None:
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(file)


def main() -> None:
    """Write the files, where there is data, and the tables of the pages."""
    RESULTS.mkdir(exist_ok=True)
    for name in NAMES:
        try:
            _write(RESULTS / f"{name}_information.csv", measure(name))
        except FileNotFoundError as error:
            print(error)
    try:
        _write(RESULTS / "wider_information.csv", measure_wider())
    except FileNotFoundError as error:
        print(error)
    blocks = {
        "plane": write_plane(),
        "granularity": write_granularity(),
        "wider": write_wider(),
        "small clusters": write_small_clusters(),
    }
    for page in (PAGES / "cl_infonce.md", PAGES / "insufficient_samples.md"):
        text = page.read_text()
        for name, body in blocks.items():
            start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
            if start in text:
                before, _, rest = text.partition(start)
                text = before + start + body + end + rest.partition(end)[2]
        page.write_text(text)


if __name__ == "__main__":
    main()

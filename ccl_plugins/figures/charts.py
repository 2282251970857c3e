"""Charts of what was measured: curves, the information plane, bars, and what is kept and leaks."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.curves import Curves
from ccl_plugins.experiments.curves import curves as read_curves
from ccl_plugins.experiments.results import Result, compare, configurations, labels_of
from ccl_plugins.figures.samples import (
    DoesNotApply,
    conditions_of,
    known_variables,
    same_data,
)
from ccl_plugins.figures.style import FAINT, MARKERS, RUNS, TEXT, figure, short, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.information.plane import Point

COLUMNS = 3
"""Panels side by side."""
BEFORE = "before training"
PROBES = ("r2", "balanced_accuracy", "top1", "map", "linear")
"""The measures of how well a variable is read from the features, the first that is there."""


@dataclass(frozen=True)
class Configuration:
    """Runs that differ in the seed alone, drawn alike.

    Args:
        title: The run's title, or what the titles of several begin with.
        results: Their results.
        runs: The runs.
        color: Their color.
        marker: Their marker.
    """

    title: str
    results: list[Result]
    runs: list[Run]
    color: str
    marker: str


def grouped(
    runs: Mapping[str, Run], measured: Mapping[str, Mapping[str, float]] | None = None
) -> list[Configuration]:
    """The configurations of runs, in order; ``measured`` takes the place of the runs' metrics."""
    results = _results(runs, measured or {})
    titles = {id(result): title for title, result in results.items()}
    groups = configurations([*results.values()])
    names = [[titles[id(each)] for each in group] for group in groups]
    shown = [_common(each) for each in names]
    if len({*shown}) < len(shown):  # folders that are numbers, as the cells of a sweep
        shown = [_of_seeds(*pair) for pair in zip(labels_of(groups), names, strict=True)]
    return [
        Configuration(
            shown[i],
            group,
            [runs[title] for title in names[i]],
            RUNS[i % len(RUNS)],
            MARKERS[i % len(MARKERS)],
        )
        for i, group in enumerate(groups)
    ]


def _results(
    runs: Mapping[str, Run], measured: Mapping[str, Mapping[str, float]]
) -> dict[str, Result]:
    return {
        title: Result(
            run.path,
            run.before,
            measured.get(title, run.metrics),
            "" if run.layout.weights.exists() else "not finished",
            run.record,
            run.intervals,
        )
        for title, run in runs.items()
    }


def _common(titles: Sequence[str]) -> str:
    if len(titles) == 1:
        return _of_seeds(titles[0], titles)
    begin = os.path.commonprefix([*titles])  # noqa: RUF071 - of characters, not of folders
    begin = re.sub(r"([-_,/ ]*seed)?[-_,/ ]*$", "", begin)
    return _of_seeds(begin or titles[0], titles)


def _of_seeds(name: str, titles: Sequence[str]) -> str:
    return f"{short(name, 30)} ({len(titles)} seeds)" if len(titles) > 1 else short(name, 40)


def _panels(count: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    """A figure with a grid of panels."""
    columns = min(count, COLUMNS)
    lines = -(-count // columns)
    result = figure(0.3 + width * columns, 0.4 + height * lines)
    panels = [*result.subplots(lines, columns, squeeze=False).flat]
    for panel in panels[count:]:
        panel.remove()
    return result, panels[:count]


@styled
def curves(runs: Mapping[str, Run], names: Sequence[str] | None = None) -> Figure:
    """Draw what runs logged over their steps, a panel for each scalar.

    Runs that differ in the seed alone have one color.

    Args:
        runs: The runs by their titles.
        names: Names of scalars, or beginnings of names that end in ``/``; None: the loss and the monitors
            or, in runs without monitors, the evaluations and what was logged of the conditions.

    Raises:
        FileNotFoundError: If a run has logged nothing.
        ValueError: If no run has a scalar of these names.
    """
    if not runs:
        raise ValueError("there are no runs to draw")
    logged = {id(run): read_curves(run) for run in runs.values()}
    every = sorted({name for found in logged.values() for name in found})
    by_default = names is None
    if names is None:
        monitors = any(name.startswith("monitor/") for name in every)
        names = ["loss", "monitor/"] if monitors else ["loss", "evaluation/", "condition/"]
    drawn = [n for given in names for n in every if n == given or _begins(n, given)]
    drawn = [*dict.fromkeys(drawn)]
    if by_default:  # what was logged once, as of a table, is no curve
        several = [n for n in drawn if any(len(c.get(n, ())) > 1 for c in logged.values())]
        drawn = several or drawn
    if not drawn:
        raise DoesNotApply(f"no run has logged {', '.join(names)}; there are {', '.join(every)}")
    result, panels = _panels(len(drawn), 2.9, 1.9)
    configurations = grouped(runs)
    for panel, name in zip(panels, drawn, strict=True):
        for each in configurations:
            _draw_curves(panel, each, name, [logged[id(run)] for run in each.runs])
        panel.set_title(_on_two_lines(name.removeprefix("monitor/")))
        panel.grid(axis="y")
        panel.set_xlabel("step")
    _legend(result, configurations)
    return result


def _on_two_lines(name: str, most: int = 26) -> str:
    """A name, broken before its last part if it is long."""
    begin, slash, end = name.rpartition("/")
    return f"{begin}{slash}\n{end}" if len(name) > most and begin else name


def _begins(name: str, given: str) -> bool:
    return given.endswith("/") and name.startswith(given)


def _draw_curves(panel: Any, group: Configuration, name: str, logged: Sequence[Curves]) -> None:
    points = [found[name] for found in logged if name in found]
    for each in points:
        steps, values = zip(*each, strict=True)
        few = {"marker": group.marker, "ms": 4} if len(each) < 12 else {}
        thin = 1.3 if len(points) == 1 else 0.8
        panel.plot(steps, values, color=group.color, lw=thin, **few)


def _legend(result: Figure, configurations: Sequence[Configuration]) -> None:
    """Name the configurations below all panels."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=each.color, marker=each.marker, ms=5, label=each.title)
        for each in configurations
    ]
    result.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3))


@styled
def information_plane(runs: Mapping[str, Run]) -> Figure:
    """Draw the runs' categorical conditions Z by I(Z;T) and H(Z|T), T being the label.

    Up: Z tells more of the label.  Right: Z tells more that the label does not have.  The best Z is the
    label itself, the star at the upper left; Z of one sample each, as InfoNCE has, is at the right end.
    Tables that are refreshed are drawn as they ended, with their way there where a monitor logged it.

    Args:
        runs: The runs by their titles, all of one data set.

    Raises:
        ValueError: If no run has a categorical condition with a table; for runs of different data sets,
            and a data set without labels.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), figures 2 and 5.
    """
    import math

    from ccl_plugins.information.entropies import entropy

    same_data(runs)
    placed = {title: plane_points(run) for title, run in runs.items()}
    if not any(placed.values()):
        raise DoesNotApply("no run has a categorical condition with a table")
    target = _target(next(iter(runs.values())))
    top, number = entropy(target), len(target)
    result = figure(5.6, 3.8)
    panel = result.subplots()
    panel.axhline(top, color=FAINT, lw=0.8, ls=":")
    panel.plot([0], [top], marker="*", ms=11, color=TEXT, ls="", label="Z = label")
    panel.plot(
        [math.log2(number) - top],
        [top],
        marker="x",
        ms=7,
        color=TEXT,
        ls="",
        label="Z = each sample",
    )
    for each in grouped(runs):
        for title, run in ((t, r) for t, r in runs.items() if r in each.runs):
            for way in _ways(run):
                panel.plot(*way, color=each.color, lw=0.8, alpha=0.7)
            for point in placed[title]:
                about = point.information
                place = about.conditional_entropy, about.mutual
                panel.plot(*place, marker=each.marker, color=each.color, ls="", ms=7)
                right = place[0] > (math.log2(number) - top) / 2
                panel.annotate(
                    f"{point.name} ({point.values} values)",
                    place,
                    xytext=(-7 if right else 7, -3),
                    textcoords="offset points",
                    fontsize=8,
                    ha="right" if right else "left",
                    va="top",
                )
        if any(placed[t] for t, r in runs.items() if r in each.runs):
            panel.plot([], [], marker=each.marker, color=each.color, ls="", label=each.title)
    panel.set_ylim(bottom=0, top=1.12 * top)
    panel.set_xlim(left=min(0, panel.get_xlim()[0]))
    panel.set_xlabel("H(Z|label) in bits: what Z has beyond the label")
    panel.set_ylabel("I(Z;label) in bits")
    result.legend(loc="outside right upper")
    return result


def plane_points(run: Run) -> list[Point]:
    """The run's categorical conditions, as their tables are now, against the label.

    Raises:
        DoesNotApply: If the data set has no labels.
    """
    from ccl_plugins.information.plane import points

    categorical = [
        name
        for name, condition in conditions_of(run).items()
        if condition.value_type == "categorical" and condition.refresh != "batch"
    ]
    if not categorical:
        return []
    target, tables = _target(run), run.condition_tables()
    shown = {name: title for title, name in known_variables(run).items()}
    return [
        point
        for name in categorical
        for point in points(shown.get(name, name), tables[name].values, target)
    ]


def _target(run: Run) -> Any:
    from ccl_plugins.metadata.columns import class_ids

    try:
        return class_ids(run.splits[0].metadata, "label")
    except ValueError as error:
        raise DoesNotApply(f"there is no label to compare with: {error}") from error


def _ways(run: Run) -> Iterator[tuple[list[float], list[float]]]:
    """H(Z|T) and I(Z;T) of each refresh, where a monitor logged them."""
    try:
        logged = read_curves(run)
    except FileNotFoundError:
        return
    for name in conditions_of(run):
        found = [
            dict(logged.get(f"monitor/{name}/{what}", ()))
            for what in ("conditional_entropy", "mutual_information")
        ]
        steps = sorted(found[0].keys() & found[1].keys())
        if steps:
            yield [found[0][s] for s in steps], [found[1][s] for s in steps]


@styled
def bars(runs: Mapping[str, Run], metric: str | None = None) -> Figure:
    """Draw the runs' metrics as bars, with their intervals.

    Runs that differ in the seed alone are one bar, of the mean, with a point for each seed and a line of
    one standard deviation to both sides.  The line of a single run is its 95 % interval over test samples,
    where the evaluator gives one.  The gray mark is the untrained or pretrained backbone.

    Args:
        runs: The runs by their titles, all of one data set.
        metric: The name of a metric, as ``"linear/top1"``; None: a panel for each.

    Raises:
        ValueError: If no run has been evaluated or has the metric; for runs of different data sets.
    """
    same_data(runs)
    found = grouped(runs)
    rows = [row for row in compare(r for each in found for r in each.results) if row["metric"]]
    names = list(dict.fromkeys(row["metric"] for row in rows if row["after"] is not None))
    if not names:
        raise DoesNotApply("no run has metrics: run ccl evaluate first")
    if metric is not None and metric not in names:
        raise DoesNotApply(f"no run has the metric {metric!r}; there are {', '.join(names)}")
    drawn = names if metric is None else [metric]
    result, panels = _panels(len(drawn), 3.1, 0.6 + 0.3 * len(found))
    by_run = {(row["metric"], row["runs"][0]): row for row in rows}
    for place, (panel, name) in enumerate(zip(panels, drawn, strict=True)):
        for y, each in enumerate(found):
            measured = by_run.get((name, str(each.results[0].path)))
            if measured is not None and measured["after"] is not None:
                _draw_bar(panel, y, each, measured, name)
        panel.set_title(name)
        panel.set_ylim(len(found) - 0.4, -0.6)
        first = place % COLUMNS == 0
        panel.set_yticks(range(len(found)), [each.title for each in found] if first else [])
        panel.tick_params(axis="y", length=0)
        panel.margins(x=0.1)
        panel.grid(axis="x")
        panel.set_axisbelow(True)
    result.supxlabel(_caption(rows), fontsize=8)
    return result


def _caption(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    if any(row["n"] > 1 for row in rows):
        parts.append("bar: mean over seeds, each a point; line: one standard deviation")
    if any(row["interval"] for row in rows):
        parts.append("line: 95 % interval over test samples")
    if any(row["before"] is not None for row in rows):
        parts.append("gray mark: before training")
    return "; ".join(parts)


def _draw_bar(panel: Any, y: int, each: Configuration, row: Mapping[str, Any], name: str) -> None:
    mean, interval = row["after"], row["interval"]
    panel.barh(y, mean, color=each.color, height=0.6, alpha=0.75)
    if interval is None and row["after_deviation"] is not None:
        interval = mean - row["after_deviation"], mean + row["after_deviation"]
    if interval is not None:
        panel.plot([*interval], [y, y], color=TEXT, lw=1.6, solid_capstyle="butt")
    if len(each.results) > 1:
        values = [result.after[name] for result in each.results if name in result.after]
        panel.plot(values, [y + 0.18] * len(values), ".", color=TEXT, ms=4)
    if row["before"] is not None:
        panel.plot([row["before"]] * 2, [y - 0.38, y + 0.38], color=FAINT, lw=2)


@styled
def kept_and_leaked(
    runs: Mapping[str, Run], kept: str | None = None, leaked: str | None = None
) -> Figure:
    """Draw one point per run: how well the label is read from the features, and how well Z is.

    Up: the label is kept.  Right: Z leaks into the features.  Lines are 95 % intervals over test samples,
    where the evaluators give them; the hollow mark is the untrained or pretrained backbone.  Where no
    evaluator has measured the label or Z, the monitors' last values are taken.

    Args:
        runs: The runs by their titles, all of one data set.
        kept: The metric of the label; None: ``linear/top1`` or another accuracy.
        leaked: The metric of Z; None: that of the first condition which was measured.

    Raises:
        ValueError: If the runs were not evaluated on both; for runs of different data sets.
    """
    same_data(runs)
    measured = {title: {**_monitored(run), **run.metrics} for title, run in runs.items()}
    names = list(dict.fromkeys(name for each in measured.values() for name in each))
    kept, leaked = kept or _label_metric(runs, names), leaked or _leak_metric(runs, names)
    found = grouped(runs, measured)
    result = figure(5.6, 3.8)
    panel = result.subplots()
    drawn = 0
    for each in found:
        points = [r for r in each.results if kept in r.after and leaked in r.after]
        for one in points:
            _draw_point(panel, one, each, kept, leaked, each.title if one is points[0] else None)
        drawn += len(points)
    if not drawn:
        raise DoesNotApply(f"no run has both metrics, {kept} and {leaked}")
    panel.set_xlabel(f"{leaked}: how well Z is read from the features (it leaks →)")
    panel.set_ylabel(f"{kept}: how well the label is (kept →)")
    for limits, limit in ((panel.get_xlim(), panel.set_xlim), (panel.get_ylim(), panel.set_ylim)):
        if limits[0] > -0.1 and 0.2 < limits[1] < 1.1:  # shares of 1
            limit(-0.03, 1.03)
    panel.grid()
    panel.set_axisbelow(True)
    handles, labels = panel.get_legend_handles_labels()
    last = sorted(range(len(labels)), key=lambda i: labels[i] == BEFORE)
    result.legend([handles[i] for i in last], [labels[i] for i in last], loc="outside right upper")
    return result


def _draw_point(
    panel: Any, one: Result, each: Configuration, kept: str, leaked: str, label: str | None
) -> None:
    x, y = one.after[leaked], one.after[kept]
    for metric, value, name in ((leaked, x, "xerr"), (kept, y, "yerr")):
        if metric in one.intervals:
            low, high = one.intervals[metric]
            length = {name: [[max(value - low, 0)], [max(high - value, 0)]]}
            panel.errorbar(x, y, **length, color=each.color, lw=1.2)
    panel.plot(x, y, marker=each.marker, color=each.color, ls="", ms=7, label=label)
    if kept in one.before and leaked in one.before:
        start = one.before[leaked], one.before[kept]
        first = BEFORE not in panel.get_legend_handles_labels()[1]
        panel.plot(
            *start,
            marker="o",
            mfc="none",
            color=FAINT,
            ls="",
            ms=6,
            label=BEFORE if first else None,
        )


def _monitored(run: Run) -> dict[str, float]:
    """What the monitors measured last."""
    try:
        logged = read_curves(run)
    except FileNotFoundError:
        return {}
    return {name: points[-1][1] for name, points in logged.items() if name.startswith("monitor/")}


def _label_metric(runs: Mapping[str, Run], names: Sequence[str]) -> str:
    others = {name for run in runs.values() for name in known_variables(run)} - {"label"}
    accuracies = [n for n in names if n.endswith("/top1") and n.partition("/")[0] not in others]
    for name in ("linear/top1", *accuracies, "monitor/label/linear"):
        if name in names:
            return name
    raise DoesNotApply("no run was evaluated on the label: add the evaluator 'linear'")


def _leak_metric(runs: Mapping[str, Run], names: Sequence[str]) -> str:
    variables = {
        shown: name for run in runs.values() for shown, name in known_variables(run).items()
    }
    variables.pop("label", None)
    for (shown, name), probe in itertools.product(variables.items(), PROBES):
        for metric in (f"{shown}/{probe}", f"monitor/{name}/{probe}"):
            if metric in names:
                return metric
    listed = ", ".join(map(repr, variables)) or "none"
    raise DoesNotApply(
        f"no run was evaluated on a condition ({listed}): add the evaluator 'regression' of its column,"
        " or monitors"
    )

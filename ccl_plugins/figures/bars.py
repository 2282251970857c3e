"""The figure ``bars``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.results import compare_results
from ccl_plugins.figures.groups import COLUMNS, DrawnGroup, drawn_groups, panels
from ccl_plugins.figures.samples import same_data
from ccl_plugins.figures.style import FAINT, TEXT, short, styled
from ccl_plugins.protocols import DoesNotApply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run


class Bars:
    """The measurements of each run, with intervals and with the network before training.

    Runs that differ only in the seed are one bar, their mean, with a point for each seed and a line
    of one standard deviation to both sides. The line of a single run is its 95 % interval over test
    samples, if the evaluator gives one. The gray mark is the backbone before training, the dotted
    line the chance level.

    Args:
        metric: The name of a measurement, such as ``"linear/top1"``; None: a panel for each.
    """

    def __init__(self, metric: str | None = None) -> None:
        self.metric = metric

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set.

        Raises:
            DoesNotApply: If no run has been evaluated or has the metric; for runs of different data sets.
        """
        same_data(runs)
        groups = drawn_groups(runs)
        rows = compare_results(result for each in groups for result in each.runs)
        measured = {
            (row["metric"], row["runs"][0]): row for row in rows if row["after"] is not None
        }
        about = {name: measured[name, run] for name, run in reversed([*measured])}
        names = [*dict.fromkeys(name for name, _ in measured)]
        if not names:
            raise DoesNotApply("no run has metrics: run ccl evaluate first")
        if self.metric is not None and self.metric not in names:
            listed = ", ".join(names)
            raise DoesNotApply(f"no run has the metric {self.metric!r}; there are {listed}")
        drawn = names if self.metric is None else [self.metric]
        result, grid = panels(len(drawn), 3.1, 0.95 + 0.3 * len(groups))
        for place, (panel, name) in enumerate(zip(grid, drawn, strict=True)):
            for y, each in enumerate(groups):
                if row := measured.get((name, str(each.runs[0].path))):
                    _draw(panel, y, each, row, name)
            if (chance := about[name]["chance"]) is not None:
                panel.axvline(chance, color=TEXT, lw=1, ls=":")
            panel.set_title(short(name, 30))
            panel.set_xlabel(textwrap.fill(about[name]["sentence"], 46), fontsize=7)
            panel.set_ylim(len(groups) - 0.4, -0.6)
            first = place % COLUMNS == 0
            panel.set_yticks(range(len(groups)), [each.name for each in groups] if first else [])
            panel.tick_params(axis="y", length=0)
            panel.margins(x=0.1)
            panel.grid(axis="x")
            panel.set_axisbelow(True)
        result.supxlabel(
            _caption([row for row in measured.values() if row["metric"] in drawn]), fontsize=8
        )
        return result


def _caption(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    if any(row["n"] > 1 for row in rows):
        parts.append("bar: mean over seeds, each a point; line: one standard deviation")
    if any(row["interval"] for row in rows):
        parts.append("line: 95 % interval over test samples")
    if any(row["before"] is not None for row in rows):
        parts.append("gray mark: before training")
    if any(row["chance"] is not None for row in rows):
        parts.append("dotted: features that say nothing")
    return "; ".join(parts)


def _draw(panel: Any, y: int, each: DrawnGroup, row: Mapping[str, Any], name: str) -> None:
    mean, interval = row["after"], row["interval"]
    panel.barh(y, mean, color=each.color, height=0.6, alpha=0.75)
    if interval is None and row["after_deviation"] is not None:
        interval = mean - row["after_deviation"], mean + row["after_deviation"]
    if interval is not None:
        panel.plot([*interval], [y, y], color=TEXT, lw=1.6, solid_capstyle="butt")
    if len(each.runs) > 1:
        values = [*each.by_seed(name).values()]
        panel.plot(values, [y + 0.18] * len(values), ".", color=TEXT, ms=4)
    if row["before"] is not None:
        panel.plot([row["before"]] * 2, [y - 0.38, y + 0.38], color=FAINT, lw=2)

"""The figure ``kept_and_leaked``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.results import conditioned, judged_by
from ccl_plugins.figures.groups import DrawnGroup, drawn_groups, panels
from ccl_plugins.figures.samples import same_data
from ccl_plugins.figures.style import FAINT, TEXT, styled
from ccl_plugins.protocols import DoesNotApply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.protocols import Measurement

BEFORE = "before training"


class KeptAndLeaked:
    """One point per run: up, how well the label is read; to the right, how well a condition is read.

    Up: the label is kept.  Right: the column leaks into the features.  There is a panel for each column
    that a condition of a run reads, with every run that was evaluated on it. Lines are 95 %
    intervals over test samples, if the evaluators give them. The hollow marks are the backbones
    before training, the dotted lines the chance levels.

    Args:
        kept: The measurement of the label; None: the first that an evaluator gives of it.
        leaked: The measurement of Z; None: the usual one of each column that a condition reads,
            such as `held` if it was measured.
    """

    def __init__(self, kept: str | None = None, leaked: str | None = None) -> None:
        self.kept = kept
        self.leaked = leaked

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set.

        Raises:
            DoesNotApply: If no run was evaluated on both; for runs of different data sets.
        """
        same_data(runs)
        groups = drawn_groups(runs)
        results = [result for each in groups for result in each.runs]
        names = judged_by(results)
        kept = self.kept or names.get("label")
        leaked = [self.leaked] if self.leaked else [names[c] for c in conditioned(results)]
        if kept is None:
            raise DoesNotApply("no run was evaluated on the label: add the evaluator 'linear'")
        if not leaked:
            raise DoesNotApply(
                "no run was evaluated on a column that a condition reads: add an evaluator of it, such as"
                " 'regression' for numbers, 'linear' for classes or 'held' for classes that "
                "training lacks"
            )
        listed = " or ".join(leaked)
        leaked = [each for each in leaked if any({kept, each} <= r.after.keys() for r in results)]
        if not leaked:
            raise DoesNotApply(f"no run was measured by both {kept} and {listed}")
        about = {n: each for r in reversed(results) for n, each in r.after.items()}
        result, grid = panels(len(leaked), 4.2, 3.6)
        for panel, name in zip(grid, leaked, strict=True):
            for group in groups:
                _draw(panel, group, name, kept)
            _scale(panel, about[name], about[kept])
        marks = {line.get_label(): line for panel in grid for line in panel.lines}
        labels = [*(each.name for each in groups), BEFORE]
        handles = [marks[label] for label in labels if label in marks]
        result.legend(handles=handles, loc="outside right upper")
        return result


def _draw(panel: Any, each: DrawnGroup, leaked: str, kept: str) -> None:
    for one in [r for r in each.runs if {kept, leaked} <= r.after.keys()]:
        x, y = one.after[leaked], one.after[kept]
        for measured, way in ((x, "xerr"), (y, "yerr")):
            if measured.interval is not None:
                low, high = measured.interval
                ends = [[max(measured.value - low, 0)], [max(high - measured.value, 0)]]
                panel.errorbar(x.value, y.value, **{way: ends}, color=each.color, lw=1.2)
        style = {"marker": each.marker, "color": each.color, "ls": "", "ms": 7}
        panel.plot(x.value, y.value, label=each.name, **style)
    for one in each.runs:
        if {kept, leaked} <= one.before.keys():
            start = one.before[leaked].value, one.before[kept].value
            style = {"marker": "o", "mfc": "none", "color": FAINT, "ls": "", "ms": 6}
            panel.plot(*start, label=BEFORE, **style)


def _scale(panel: Any, leaked: Measurement, kept: Measurement) -> None:
    """Limits, names and sentences of the axes, which increase to the right and up."""
    for limits, limit in ((panel.get_xlim(), panel.set_xlim), (panel.get_ylim(), panel.set_ylim)):
        if limits[0] > -0.1 and 0.2 < limits[1] < 1.1:  # shares of 1
            limit(min(-0.03, limits[0]), max(1.03, limits[1]))
    for measured, line, turn in (
        (leaked, panel.axvline, panel.invert_xaxis),
        (kept, panel.axhline, panel.invert_yaxis),
    ):
        if measured.chance is not None:
            line(measured.chance, color=TEXT, lw=1, ls=":")
        if measured.direction == "lower":
            turn()
    column = leaked.column or "Z"
    panel.set_xlabel(_label(leaked, f"{column} leaks →"), fontsize=8)
    panel.set_ylabel(_label(kept, f"{kept.column} is kept →"), fontsize=8)
    panel.grid()
    panel.set_axisbelow(True)


def _label(measured: Measurement, arrow: str) -> str:
    return f"{measured.name} ({arrow})\n{textwrap.fill(measured.sentence, 50)}"

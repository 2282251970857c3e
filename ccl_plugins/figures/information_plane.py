"""The figure ``information_plane``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.curves import curves
from ccl_plugins.figures.groups import drawn_groups
from ccl_plugins.figures.samples import conditions_of, known_variables, same_data
from ccl_plugins.figures.style import FAINT, TEXT, figure, styled
from ccl_plugins.information.entropies import entropy
from ccl_plugins.information.plane import Point, points
from ccl_plugins.metadata.columns import class_ids
from ccl_plugins.protocols import DoesNotApply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run


class InformationPlane:
    """The information of each categorical condition Z about the label T, and beyond it.

    Up, I(Z;T): Z has more information about the label. Right, H(Z|T): Z has more information beyond
    the label. The best Z is the label itself, the star at the upper left; instance discrimination
    (InfoNCE) is at the right end. Refreshed tables are drawn in their last state, with their path
    if it was logged.

    Source:
        Tsai et al., Learning Weakly-Supervised Contrastive Representations (2022), figures 2 and 5.
    """

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs of one data set.

        Raises:
            DoesNotApply: If no run has a categorical condition with a table; for runs of different data
                sets, and a data set without labels.
        """
        same_data(runs)
        placed = {run.path: plane_points(run) for run in runs.values()}
        if not any(placed.values()):
            raise DoesNotApply("no run has a categorical condition with a table")
        target = _target(next(iter(runs.values())))
        target = target[target >= 0]
        top, end = entropy(target), math.log2(len(target)) - entropy(target)
        result = figure(5.6, 3.8)
        panel = result.subplots()
        panel.axhline(top, color=FAINT, lw=0.8, ls=":")
        ends: dict[str, Any] = {"color": TEXT, "ls": ""}
        handles = panel.plot([0], [top], marker="*", ms=11, label="Z = label", **ends)
        handles += panel.plot([end], [top], marker="x", ms=7, label="Z = each sample", **ends)
        for group in drawn_groups(runs):
            like: dict[str, Any] = {"color": group.color, "marker": group.marker, "ls": ""}
            for run in group.drawn:
                for way in _ways(run):
                    panel.plot(*way, color=group.color, lw=0.8, alpha=0.7)
                for point in placed[run.path]:
                    _draw(panel, point, end / 2, like)
            if any(placed[run.path] for run in group.drawn):
                handles += panel.plot([], [], label=group.name, **like)
        panel.set_ylim(bottom=0, top=1.12 * top or 1)
        panel.set_xlim(left=min(0, panel.get_xlim()[0]))
        panel.set_xlabel("H(Z|label) in bits: what Z has beyond the label")
        panel.set_ylabel("I(Z;label) in bits")
        result.legend(handles=handles, loc="outside right upper")
        return result


def _draw(panel: Any, point: Point, middle: float, like: Mapping[str, Any]) -> None:
    """Draw a point, with its name on the side that has room."""
    place = point.information.conditional_entropy, point.information.mutual
    panel.plot(*place, ms=7, **like)
    right = place[0] > middle
    panel.annotate(
        f"{point.name} ({point.values} values)",
        place,
        xytext=(-7 if right else 7, -3),
        textcoords="offset points",
        fontsize=8,
        ha="right" if right else "left",
        va="top",
    )


def plane_points(run: Run) -> list[Point]:
    """The run's categorical conditions, with their last tables, against the label.

    Raises:
        DoesNotApply: If the data set has no labels.
    """
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

    try:
        return class_ids(run.splits[0].metadata, "label")
    except ValueError as error:
        raise DoesNotApply(f"there is no label to compare with: {error}") from error


def _ways(run: Run) -> Iterator[tuple[list[float], list[float]]]:
    """H(Z|T) and I(Z;T) of each refresh, where a monitor logged them."""
    try:
        logged = curves(run)
    except FileNotFoundError:
        return
    for name in conditions_of(run):
        by_step = [
            dict(logged.get(f"monitor/{name}/{what}", ()))
            for what in ("conditional_entropy", "mutual_information")
        ]
        steps = sorted(by_step[0].keys() & by_step[1].keys())
        if steps:
            yield [by_step[0][s] for s in steps], [by_step[1][s] for s in steps]

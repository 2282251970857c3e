"""The runs of a figure; runs that differ only in the seed form a group with one color."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.results import (
    Group,
    Result,
    beginning_of,
    groups_of,
)
from ccl_plugins.figures.style import MARKERS, RUNS, figure, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run

COLUMNS = 3
"""The number of panels side by side."""

MOST = 6
"""The most runs in a figure that draws them side by side; of more configurations, the first."""


@dataclass(frozen=True)
class DrawnGroup(Group):
    """A group, drawn in one color; its name is its runs' title, or the common beginning of their titles.

    Args:
        drawn: The runs.
        color: Their color.
        marker: Their marker.
    """

    drawn: Sequence[Run] = ()
    color: str = ""
    marker: str = ""


def drawn_groups(runs: Mapping[str, Run]) -> list[DrawnGroup]:
    """The groups of runs, in order."""
    by_path = {run.path: title for title, run in runs.items()}
    groups = groups_of([_result(run) for run in runs.values()])
    titles = [[by_path[each.path] for each in group.runs] for group in groups]
    names = [_common(each) for each in titles]
    if len({*names}) < len(names):  # folders that are numbers, such as the cells of a sweep
        names = [_of_seeds(group.name, own) for group, own in zip(groups, titles, strict=True)]
    return [
        DrawnGroup(
            group.runs,
            names[i],
            [runs[title] for title in titles[i]],
            RUNS[i % len(RUNS)],
            MARKERS[i % len(MARKERS)],
        )
        for i, group in enumerate(groups)
    ]


def first_of_each(runs: Mapping[str, Run]) -> dict[str, Run]:
    """The first run of each configuration, of at most six, by its title."""
    first = [each.drawn[0] for each in drawn_groups(runs)][:MOST]
    return {title: run for title, run in runs.items() if run in first}


def _result(run: Run) -> Result:
    """The facts about a run, without reading its weights."""
    state = "" if run.folder.weights.exists() else "not finished"
    before, after = run.measurements("before"), run.measurements("after")
    return Result(run.path, before, after, state, run.record)


def _common(titles: Sequence[str]) -> str:
    if len(titles) == 1:
        return _of_seeds(titles[0], titles)
    begin = re.sub(r"([-_,/ ]*seed)?[-_,/ ]*$", "", beginning_of(titles))
    return _of_seeds(begin or titles[0], titles)


def _of_seeds(name: str, titles: Sequence[str]) -> str:
    return f"{short(name, 30)} ({len(titles)} seeds)" if len(titles) > 1 else short(name, 40)


def panels(count: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    """A figure with a grid of the given number of panels, each of a size in inches."""
    columns = min(count, COLUMNS)
    lines = -(-count // columns)
    result = figure(0.3 + width * columns, 0.4 + height * lines)
    grid = [*result.subplots(lines, columns, squeeze=False).flat]
    for panel in grid[count:]:
        panel.remove()
    return result, grid[:count]

"""The figure ``curves``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ccl_plugins.experiments.curves import curves
from ccl_plugins.figures.groups import DrawnGroup, drawn_groups, panels
from ccl_plugins.figures.samples import of_applicable
from ccl_plugins.figures.style import short, styled
from ccl_plugins.protocols import DoesNotApply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run


class Curves:
    """The scalars that runs logged over their steps, a panel for each.

    Runs that differ only in the seed have one color.

    Args:
        names: Names of scalars, or beginnings of names that end in ``/``; None: the loss and the monitors
            or, in runs without monitors, the evaluations and the scalars of the conditions.
    """

    def __init__(self, names: str | Sequence[str] | None = None) -> None:
        self.names = [names] if isinstance(names, str) else names

    @styled
    def __call__(self, runs: Mapping[str, Run]) -> Figure:
        """Draw runs, also of several data sets, without those that have logged nothing.

        Raises:
            DoesNotApply: If no run has logged anything, or none has a scalar of these names.
        """
        from matplotlib.lines import Line2D

        by_title = of_applicable(runs, _logged)
        runs = {title: runs[title] for title in by_title}
        logged = {run.path: by_title[title] for title, run in runs.items()}
        every = sorted({name for each in logged.values() for name in each})
        names = self.names
        if names is None:
            monitors = any(name.startswith("monitor/") for name in every)
            names = ["loss", "monitor/"] if monitors else ["loss", "evaluation/", "condition/"]
        drawn = [
            n
            for given in names
            for n in every
            if n == given or (given[-1:] == "/" and n.startswith(given))
        ]
        drawn = [*dict.fromkeys(drawn)]
        if self.names is None:  # a number that was logged once, such as a table's, is no curve
            several = [n for n in drawn if any(len(c.get(n, ())) > 1 for c in logged.values())]
            drawn = several or drawn
        if not drawn:
            listed = ", ".join(every)
            raise DoesNotApply(f"no run has logged {', '.join(names)}; there are {listed}")
        result, grid = panels(len(drawn), 2.9, 1.9)
        groups = drawn_groups(runs)
        for panel, name in zip(grid, drawn, strict=True):
            for group in groups:
                points = [logged[run.path].get(name, []) for run in group.drawn]
                _draw(panel, group, [*filter(None, points)])
            panel.set_title(_on_two_lines(name.removeprefix("monitor/")))
            panel.grid(axis="y")
            panel.set_xlabel("step")
        handles = [
            Line2D([], [], color=each.color, marker=each.marker, ms=5, label=each.name)
            for each in groups
        ]
        result.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3))
        return result


def _logged(run: Run) -> dict[str, list[tuple[int, float]]]:
    try:
        return curves(run)
    except FileNotFoundError as error:
        raise DoesNotApply(str(error)) from error


def _on_two_lines(name: str) -> str:
    """A name, broken before its last part if it is long."""
    begin, slash, end = name.rpartition("/")
    lines = f"{begin}{slash}", end
    return "\n".join(short(each, 34) for each in lines) if len(name) > 26 and begin else name


def _draw(panel: Any, group: DrawnGroup, points: Sequence[Sequence[tuple[int, float]]]) -> None:
    for curve in points:
        steps, values = zip(*curve, strict=True)
        few = {"marker": group.marker, "ms": 4} if len(curve) < 12 else {}
        thin = 1.3 if len(points) == 1 else 0.8
        panel.plot(steps, values, color=group.color, lw=thin, **few)

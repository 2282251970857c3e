"""The laws of figures."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

import numpy as np
import torch
from torch import Tensor

from ccl_plugins.experiments.pipeline import Pipeline, Run
from ccl_plugins.figures.style import png, svg
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import DoesNotApply
from ccl_plugins.testing.assertions import letters, require, require_equal, require_unchanged
from ccl_plugins.testing.inputs import ExampleDataset
from ccl_plugins.testing.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = tempfile.TemporaryDirectory(prefix="ccl-figures-")  # deleted when Python ends
"""The folder of the runs: as they were trained in ``trained``, and those that figures are drawn of."""


@functools.cache
def runs() -> Mapping[str, Run]:
    """A run without a condition and one with two, of 24 images and one epoch, evaluated."""
    choose = registry().choose
    conditions = {
        "color": choose("condition", "column", name="color"),
        "groups": choose("condition", "attributes", columns=["word"], k=1),
    }
    by_color = choose(
        "objective", "fair_cclk", on="color", kernel=choose("kernel", "rbf", scale="median")
    )
    by_group = choose("objective", "cl_infonce", on="groups")
    both = choose("objective", "mixture", objectives=[by_color, by_group])
    evaluated: dict[str, Run] = {}
    differing: dict[str, dict[str, Any]] = {
        "plain": {"objective": "infonce"},
        "conditional": {"objective": both, "conditions": conditions},
    }
    for title, parts in differing.items():
        pipeline = Pipeline(
            dataset=ExampleDataset(),
            backbone="lenet5",
            method=choose("method", "simclr", hidden=8, dim=8, batch_norm=False),
            transform=choose("transform", "simclr", size=32),
            evaluate=["knn", choose("evaluator", "regression", column="color")],
            **parts,
        )
        folder = Path(FOLDER.name) / "trained" / title
        evaluated[title] = pipeline.fit(
            out=folder, progress=False, epochs=1, batch_size=12, workers=0
        )
        evaluated[title].evaluate()
    return _copied(evaluated, Path(FOLDER.name) / "drawn")


def _copied(trained: Mapping[str, Run], to: Path) -> dict[str, Run]:
    """New objects of runs, in copies of the folders as they were trained."""
    shutil.copytree(Path(FOLDER.name) / "trained", to)
    return {title: Run(to / title, run.pipeline) for title, run in trained.items()}


def observe(subject: Subject, figure: Any) -> list[Tensor]:
    """The texts and numbers that it draws of a run, or why it does not apply."""
    try:
        return _contents(figure({"conditional": runs()["conditional"]}))
    except DoesNotApply as error:
        return [letters(str(error))]


def _contents(drawn: Figure) -> list[Tensor]:
    from matplotlib.collections import Collection
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

    contents = []
    for artist in drawn.findobj():
        if isinstance(artist, Text):
            contents.append(letters(artist.get_text()))
        elif isinstance(artist, Line2D):
            contents.append(_numbers(artist.get_xydata()))
        elif isinstance(artist, Collection):
            contents.append(_numbers(artist.get_offsets()))
        elif isinstance(artist, AxesImage):
            contents.append(_numbers(artist.get_array()))
        elif isinstance(artist, Rectangle):
            contents.append(_numbers(artist.get_bbox().bounds))
    return [each for each in contents if each.numel()]


def _numbers(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=float))  # a masked array without its mask


def check_draws_runs_or_says_why_not(subject: Subject) -> None:
    """Of one run and of several it must return a matplotlib Figure, or raise `DoesNotApply` and say why."""
    from matplotlib.figure import Figure

    for titles in (("plain",), ("conditional",), ("plain", "conditional")):
        try:
            drawn = subject.build()({title: runs()[title] for title in titles})
        except DoesNotApply as error:
            require(bool(str(error)), f"of {titles} it gave no reason")
            continue
        require(isinstance(drawn, Figure), f"of {titles} it returned {drawn!r:.80}")


def check_can_be_saved(subject: Subject) -> None:
    """What it draws must have axes, and be written as SVG and PNG."""
    try:
        drawn = subject.build()(runs())
    except DoesNotApply as error:
        raise SkipTest(f"it does not apply to the runs of the kit: {error}") from error
    require(bool(drawn.axes), "it drew nothing")
    require("<svg" in svg(drawn) and bool(png(drawn)), "it cannot be written")


def check_is_deterministic(subject: Subject) -> None:
    """Equal runs must give an equal figure, whatever the state of the random generators."""
    first = subject.observe(subject.build())
    torch.rand(3)
    require_equal(observe(subject, subject.build(drawn=1)), first)


def check_leaves_everything_as_it_is(subject: Subject) -> None:
    """It must change nothing of a run, in its folder or in memory, nor of matplotlib or pyplot.

    Draw on a new ``matplotlib.figure.Figure``, or on one of ``ccl_plugins.figures.figure``.  The runs are
    new ones, of which nothing was drawn before.
    """
    import matplotlib
    from matplotlib._pylab_helpers import Gcf

    with tempfile.TemporaryDirectory(prefix="ccl-figures-") as folder:
        new = _copied(runs(), Path(folder) / "runs")

        def files() -> dict[str, bytes]:
            paths = Path(folder).rglob("*")
            return {str(each): each.read_bytes() for each in paths if each.is_file()}

        figure, settings = subject.build(), dict(matplotlib.rcParams)
        open_before = Gcf.get_num_fig_managers()
        applied = False
        with require_unchanged(lambda: [_held(run) for run in new.values()]):
            before = files()
            for title, run in new.items():
                given = {title: run}
                with contextlib.suppress(DoesNotApply):
                    figure(given)
                    applied = True
                require([*given] == [title], "it changed the mapping of runs that it was given")
        if not applied:
            raise SkipTest("it does not apply to one run of the kit")
        changed = [name for name in settings if matplotlib.rcParams[name] != settings[name]]
        require(not changed, f"it changed the settings {', '.join(changed)}")
        require(
            Gcf.get_num_fig_managers() == open_before, "pyplot keeps the figure: it is never freed"
        )
        after = files()
        other = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
        require(not other, f"it changed {', '.join(other)}")


def _held(run: Run) -> list[Any]:
    """What a run holds in memory and a figure may read."""
    weights = {**run.parts.method.state_dict(), **run.parts.objective.state_dict()}
    return [
        weights,
        dict(run.metrics),
        run.features("test").features,
        run.features("train").features,
    ]

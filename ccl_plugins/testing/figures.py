"""The laws of figures."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
from ccl_plugins.testing.assertions import (
    letters,
    require,
    require_equal,
    require_no_seeding,
    require_unchanged,
)
from ccl_plugins.testing.inputs import ExampleDataset
from ccl_plugins.testing.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = tempfile.TemporaryDirectory(prefix="ccl-figures-")  # deleted when Python ends
"""The folder of the runs: as they were trained in ``trained``, and those that figures are drawn of."""


NOT_EVALUATED = "not evaluated"


@functools.cache
def runs() -> Mapping[str, Run]:
    """Runs of 24 images and one epoch: without a condition, with two, and one that was not evaluated."""
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
    trained: dict[str, Run] = {}
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
        trained[title] = pipeline.fit(
            out=folder, progress=False, epochs=1, batch_size=12, workers=0
        )
        if title == "plain":
            shutil.copytree(folder, folder.parent / NOT_EVALUATED)
            trained[NOT_EVALUATED] = trained[title]
        trained[title].evaluate()
    return trained


def _copied(to: Path) -> dict[str, Run]:
    """New objects of the runs, in copies of the folders as they were trained."""
    trained = runs()
    shutil.copytree(Path(FOLDER.name) / "trained", to)
    return {title: Run(to / title, run.pipeline) for title, run in trained.items()}


@functools.lru_cache(1)
def _runs(subject: Subject) -> Mapping[str, Run]:
    """Runs for one component alone, which may change them; those of the component before are deleted."""
    folder = Path(FOLDER.name) / "drawn"
    shutil.rmtree(folder, ignore_errors=True)
    return _copied(folder)


def _drawn(subject: Subject, figure: Any, *titles: str) -> Figure:
    """What it draws of these runs."""
    return figure({title: _runs(subject)[title] for title in titles})  # type: ignore[no-any-return]


def observe(subject: Subject, figure: Any) -> list[Tensor]:
    """The texts and numbers that it draws of a run, or why it does not apply."""
    try:
        return _contents(_drawn(subject, figure, "conditional"))
    except DoesNotApply as error:
        return [letters(str(error))]


def _contents(drawn: Figure) -> list[Tensor]:
    contents = [each for artist in drawn.findobj() for each in _contents_of(artist)]
    return [each for each in contents if each.numel()]


def _contents_of(artist: Any) -> list[Tensor]:
    """The text or the numbers of one artist."""
    from matplotlib.collections import Collection
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

    if isinstance(artist, Text):
        return [letters(artist.get_text())]
    if isinstance(artist, Line2D):
        return [_numbers(artist.get_xydata())]
    if isinstance(artist, Collection):
        return [_numbers(artist.get_offsets())]
    if isinstance(artist, AxesImage):
        return [_numbers(artist.get_array())]
    if isinstance(artist, Rectangle):
        return [_numbers(artist.get_bbox().bounds)]
    return []


def _numbers(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=float))  # a masked array without its mask


def check_draws_runs_or_says_why_not(subject: Subject) -> None:
    """Of one run and of several it must return a matplotlib Figure, or raise `DoesNotApply` and say why.

    So it must of a run that was not evaluated.  Of the others, what it draws must have a number, a shape,
    an image or a text beside its titles.
    """
    from matplotlib.figure import Figure

    for titles in (*([title] for title in runs()), [*BOTH]):
        try:
            drawn = _drawn(subject, subject.build(), *titles)
        except DoesNotApply as error:
            require(bool(str(error)), f"of {titles} it gave no reason")
            continue
        require(isinstance(drawn, Figure), f"of {titles} it returned {drawn!r:.80}")
        shows = NOT_EVALUATED in titles or _shows_something(drawn)
        require(shows, f"of {titles} it drew nothing")


BOTH = ("plain", "conditional")
"""The titles of the runs that were evaluated, not as they are sorted."""


def _shows_something(drawn: Figure) -> bool:
    """Whether there is a number, an image, or a text that is no title."""
    for panel in drawn.axes:
        points = [_numbers(line.get_xydata()) for line in panel.lines]
        points += [_numbers(each.get_offsets()) for each in panel.collections]
        shapes = [*panel.images, *panel.patches, *panel.tables, *panel.artists]
        paths = [path for each in panel.collections for path in each.get_paths()]
        if shapes or panel.texts or paths or any(each.isfinite().any() for each in points):
            return True
    return bool(drawn.texts or drawn.images or drawn.patches or drawn.artists or drawn.subfigs)


def check_can_be_saved(subject: Subject) -> None:
    """What it draws must have axes, and be written as SVG and PNG."""
    try:
        drawn = _drawn(subject, subject.build(), *BOTH)
    except DoesNotApply as error:
        raise SkipTest(f"it does not apply to the runs of the kit: {error}") from error
    require(bool(drawn.axes), "it drew nothing")
    require("<svg" in svg(drawn) and bool(png(drawn)), "it cannot be written")


def check_is_deterministic(subject: Subject) -> None:
    """Equal runs must give an equal figure, whatever the generators' state and what it drew before."""
    first = subject.observe(subject.build())
    torch.rand(3)
    figure = subject.build(drawn=1)
    with contextlib.suppress(DoesNotApply):
        _drawn(subject, figure, "plain")
    require_equal(observe(subject, figure), first)


def check_draws_each_run_under_its_title(subject: Subject) -> None:
    """What is labelled with a run's title, or stands below it, must be what it draws of this run alone.

    Two runs must not have changed places; the numbers of each may be others beside another run.
    """
    try:
        alone = [_labelled(_drawn(subject, subject.build(), each))[each] for each in BOTH]
        beside = _labelled(_drawn(subject, subject.build(), *BOTH))
    except DoesNotApply as error:
        raise SkipTest(f"it does not apply to the runs of the kit: {error}") from error
    together = [beside[each] for each in BOTH]
    if not all((*alone, *together)):
        raise SkipTest("it labels nothing with the titles of runs")
    exchanged = _equal(together[0], alone[1]) and _equal(together[1], alone[0])
    require(
        not exchanged or _equal(*alone), "the numbers of each of two runs have the other's title"
    )


def _labelled(drawn: Figure) -> dict[str, list[Tensor]]:
    """The numbers of what has the title of a run in its label, or in the title of its axes."""
    found: dict[str, list[Tensor]] = {title: [] for title in BOTH}
    for panel in drawn.axes:
        for artist in [*panel.lines, *panel.collections, *panel.images, *panel.patches]:
            words = f"{artist.get_label()} {panel.get_title()}"
            for title in BOTH:
                if title in words:
                    found[title] += _contents_of(artist)
    return found


def _equal(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(
        x.shape == y.shape and torch.allclose(x, y, equal_nan=True) for x, y in pairs
    )


def check_leaves_everything_as_it_is(subject: Subject) -> None:
    """It must change nothing of a run, in its folder or in memory, nor of matplotlib, pyplot or torch.

    Draw on a new ``matplotlib.figure.Figure``, or on one of ``ccl_plugins.figures.figure``.  The runs are
    new ones, of which nothing was drawn before; matplotlib's settings are not its defaults, and a figure of
    the user is open.  The random generators must not be seeded, and the working directory stays.
    """
    import matplotlib

    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="ccl-figures-"))
        folder = Path(name).resolve()
        new = _copied(folder / "runs")
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(matplotlib.rc_context())
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": 11.5, "lines.linewidth": 1.25, "axes.grid": True})
        stack.enter_context(_open_figure())
        applied, figure, before = False, subject.build(), _surroundings(folder)
        with require_unchanged(lambda: [_held(new[title]) for title in BOTH]):
            for titles in (["plain"], BOTH):
                given = {title: new[title] for title in titles}
                with contextlib.suppress(DoesNotApply):
                    figure(given)
                    applied = True
                require([*given] == [*titles], "it changed the mapping of runs that it was given")
            with contextlib.suppress(DoesNotApply):
                require_no_seeding(lambda: figure({"conditional": new["conditional"]}))
                applied = True
        if not applied:
            raise SkipTest("it does not apply to the runs of the kit")
        after = _surroundings(folder)
        other = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
        require(not other, f"it changed {', '.join(other)}")


def _surroundings(folder: Path) -> dict[str, Any]:
    """What a figure could change beside runs, by its name."""
    import matplotlib
    from matplotlib._pylab_helpers import Gcf

    files = {str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_file()}
    open_figures = {number: len(each.canvas.figure.axes) for number, each in Gcf.figs.items()}
    return {
        **{name: path.read_bytes() for name, path in files.items()},
        **{f"the setting {name}": value for name, value in matplotlib.rcParams.items()},
        "the figures of pyplot, which keeps them for ever": open_figures,
        "the working directory": os.getcwd(),
        "whether torch computes gradients": torch.is_grad_enabled(),
    }


@contextlib.contextmanager
def _open_figure() -> Iterator[None]:
    """A figure of the user's that is open in pyplot, which is not imported for it."""
    from matplotlib._pylab_helpers import Gcf
    from matplotlib.backend_bases import FigureManagerBase
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    number = max(Gcf.figs, default=0) + 1
    Gcf.set_active(FigureManagerBase(FigureCanvasAgg(Figure()), number))
    try:
        yield
    finally:
        Gcf.figs.pop(number, None)


def _held(run: Run) -> list[Any]:
    """What a run holds in memory and a figure may read."""
    weights = {**run.parts.method.state_dict(), **run.parts.objective.state_dict()}
    frozen = [run.features(split) for split in ("test", "train")]
    added = sorted(name for name in vars(run) if not hasattr(type(run), name))
    return [
        weights,
        [each.training for each in run.parts.method.modules()],
        [dict(run.metrics), dict(run.before)],
        [[each.features, dict(each.metadata)] for each in frozen],
        [[each.values, dict(each.extras)] for each in run.condition_tables().values()],
        letters(json.dumps([run.record, added], default=str)),
    ]

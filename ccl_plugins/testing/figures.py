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
from unittest import SkipTest, mock

import numpy as np
import torch
from torch import Tensor

import ccl_registry as engine
from ccl_plugins.experiments.pipeline import Pipeline, Run
from ccl_plugins.figures.style import png, svg
from ccl_plugins.kinds import registry
from ccl_plugins.protocols import DoesNotApply, trait
from ccl_plugins.testing.assertions import (
    letters,
    require,
    require_equal,
    require_no_seeding,
    require_same_in_another_process,
    require_unchanged,
)
from ccl_plugins.testing.inputs import ExampleDataset, seeded
from ccl_plugins.testing.subject import Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = tempfile.TemporaryDirectory(prefix="ccl-figures-")  # deleted when Python ends
"""The folder of the runs: ``trained`` has them as trained, and ``drawn`` the copies for one figure."""
NOT_EVALUATED = "not evaluated"

FOLDERS = {"plain": "first", "conditional": "second", "again": "third", NOT_EVALUATED: "fourth"}
"""The name of each run's folder, by the run's title."""

BOTH = ("plain", "conditional")
"""The titles of two runs that were evaluated, in an order that sorting would change."""

PAIRS = (BOTH, ("conditional", "again"))
"""Pairs of titles of runs that were evaluated; both runs of the second pair have conditions."""

MANY = 12
"""Runs in one picture; a figure that is ``side_by_side`` gets no more than six."""


@functools.cache
def runs() -> Mapping[str, Run]:
    """Runs of 24 images and one epoch, by title.

    ``plain`` has no condition; ``conditional`` and ``again`` have two; a copy of ``plain`` was not
    evaluated. ``conditional`` has one more measurement, without column, interval and chance level.
    ``again`` was not measured before training.
    """
    trained: dict[str, Run] = {}
    for title in ("plain", "conditional", "again"):
        folder = Path(FOLDER.name) / "trained" / FOLDERS[title]
        _pipeline(title, measured=title != "again").fit(out=folder, progress=False)
        trained[title] = Run(folder, _pipeline(title))
        if title == "plain":
            shutil.copytree(folder, folder.parent / FOLDERS[NOT_EVALUATED])
            trained[NOT_EVALUATED] = trained[title]
        trained[title].evaluate()
    return trained


def _pipeline(title: str, measured: bool = True) -> Pipeline:
    """The pipeline of a run, with or without its evaluators."""
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
    conditional = {"objective": both, "conditions": conditions}
    knn, color = "knn", choose("evaluator", "regression", column="color")
    evaluators: dict[str, list[Any]] = {
        "plain": [knn, color],
        "conditional": ["rankme", color, knn],
        "again": [knn],
    }
    pipeline = Pipeline(
        dataset=ExampleDataset(),
        backbone="lenet5",
        method=choose("method", "simclr", hidden=8, dim=8, batch_norm=False),
        transform=choose("transform", "simclr", size=32),
        evaluate=evaluators[title] if measured else [],
        **({"objective": "infonce"} if title == "plain" else conditional),
    )
    seed = int(title == "again")
    return pipeline.with_settings(epochs=1, batch_size=12, workers=0, seed=seed)


def _copied(to: Path) -> dict[str, Run]:
    """New objects of the runs, in copies of the folders as they were trained."""
    trained = runs()
    shutil.copytree(Path(FOLDER.name) / "trained", to)
    return {title: Run(to / FOLDERS[title], run.pipeline) for title, run in trained.items()}


def _many(to: Path, figure: Any) -> dict[str, Run]:
    """Copies of two runs, as many as a report may give to a figure."""
    many: dict[str, Run] = {}
    for number in range(MANY // 2 if trait(figure, "side_by_side") else MANY):
        copied = runs()[BOTH[number % 2]]
        shutil.copytree(copied.path, to / str(number))
        many[f"run {number}"] = Run(to / str(number), copied.pipeline)
    return many


@functools.lru_cache(1)
def _runs(subject: Subject) -> Mapping[str, Run]:
    """Runs for one component alone, which may change them; those of the component before are deleted."""
    folder = Path(FOLDER.name) / "drawn"
    shutil.rmtree(folder, ignore_errors=True)
    return _copied(folder)


def _drawn(subject: Subject, figure: Any, *titles: str) -> Figure:
    """What a figure draws of these runs."""
    return figure({title: _runs(subject)[title] for title in titles})  # type: ignore[no-any-return]


@functools.lru_cache(16)
def _picture(subject: Subject, *titles: str) -> Figure | DoesNotApply:
    """What a new object draws of these runs, or why it does not apply."""
    try:
        return _drawn(subject, subject.build(), *titles)
    except DoesNotApply as error:
        return error


def _picture_or_skip(subject: Subject, *titles: str) -> Figure:
    """What a new object draws; the law is skipped if it does not apply."""
    drawn = _picture(subject, *titles)
    if isinstance(drawn, DoesNotApply):
        raise SkipTest(f"it does not apply to the runs of the kit: {drawn}")
    return drawn


def observe(subject: Subject, figure: Any) -> list[Tensor]:
    """The texts and numbers that a figure draws of a run, or why it does not apply."""
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
    from matplotlib.patches import FancyArrowPatch, Patch, Rectangle
    from matplotlib.table import Table
    from matplotlib.text import Text

    if isinstance(artist, Text):
        return [letters(artist.get_text())] if artist.get_text() else []
    if isinstance(artist, Line2D):
        return [_numbers(artist.get_xydata())]
    if isinstance(artist, Collection):
        paths = [_numbers(path.vertices) for path in artist.get_paths()]
        values = [] if artist.get_array() is None else [_numbers(artist.get_array())]
        return [_numbers(artist.get_offsets()), *values, *paths]
    if isinstance(artist, AxesImage):
        return [_numbers(artist.get_array())]
    if isinstance(artist, Rectangle):
        return [_numbers(artist.get_bbox().bounds)]
    if isinstance(artist, FancyArrowPatch):
        return []  # its path is known once it is on a canvas
    if isinstance(artist, Patch):
        return [_numbers(artist.get_patch_transform().transform_path(artist.get_path()).vertices)]
    if isinstance(artist, Table):
        return [letters(each.get_text().get_text()) for each in artist.get_celld().values()]
    return []


def _numbers(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=float))  # a masked array without its mask


def _shown(drawn: Figure) -> list[Tensor]:
    """The numbers that a figure draws, without those of axes; without any, its texts that are no titles."""
    artists, texts = _marks(drawn)
    return _of(artists) or _of(texts)


def _marks(drawn: Figure) -> tuple[list[Any], list[Any]]:
    """What a figure draws in its axes and beside them: shapes and images, and texts that are no titles."""
    artists = [*drawn.images, *drawn.patches, *drawn.artists]
    for panel in drawn.axes:
        artists += [*panel.lines, *panel.collections, *panel.images, *panel.patches]
        artists += [*panel.tables, *panel.artists]
    return artists, [*drawn.texts, *(text for panel in drawn.axes for text in panel.texts)]


def _of(artists: Sequence[Any]) -> list[Tensor]:
    found = [each for artist in artists for each in _contents_of(artist)]
    return [each for each in found if each.isfinite().any()]


def check_draws_runs_or_says_why_not(subject: Subject) -> None:
    """For one run and for several, it must return a matplotlib Figure, or raise `DoesNotApply` and say why.

    The same holds for a run that was not evaluated, for one that was not measured before training, for runs
    with different measurements, and for many runs.  The Figure must have a number, a shape, an image or a
    text beside its titles.
    """
    from matplotlib.figure import Figure

    def examine(drawn_of: str, drawn: Figure | DoesNotApply) -> None:
        if isinstance(drawn, DoesNotApply):
            require(bool(str(drawn)), f"for {drawn_of} it gave no reason")
            return
        require(isinstance(drawn, Figure), f"for {drawn_of} it returned {drawn!r:.80}")
        require(bool(_shown(drawn) or drawn.subfigs), f"for {drawn_of} it drew nothing")

    every = ["conditional", NOT_EVALUATED, "plain", "again"]  # the first has the most measurements
    for some in (*([title] for title in every), [*BOTH], every):
        examine(str(some), _picture(subject, *some))
    with tempfile.TemporaryDirectory(prefix="ccl-figures-") as folder:
        figure = subject.build()
        many = _many(Path(folder), figure)
        try:
            examine(f"{len(many)} runs", figure(many))
        except DoesNotApply as error:
            examine(f"{len(many)} runs", error)


def check_draws_what_it_can(subject: Subject) -> None:
    """A run that was not evaluated must not keep a figure from drawing the runs beside it."""
    _picture_or_skip(subject, *BOTH)
    for titles in ((*BOTH, NOT_EVALUATED), (NOT_EVALUATED, *BOTH)):
        drawn = _picture(subject, *titles)
        report = f"it draws {[*BOTH]}, and for {[*titles]} it raises DoesNotApply: {drawn}"
        require(not isinstance(drawn, DoesNotApply), report)


def check_draws_every_run(subject: Subject) -> None:
    """Two runs must both be drawn, each in a part of its own if the figure is `side_by_side`."""
    applied = False
    for titles in PAIRS:
        pictures = [_picture(subject, *some) for some in (*zip(titles), titles, titles[::-1])]
        shown = [_shown(each) for each in pictures if not isinstance(each, DoesNotApply)]
        if len(shown) < len(pictures):
            continue
        applied, (*alone, both, turned) = True, shown
        for place, (first, last) in {"first": alone, "last": alone[::-1]}.items():
            left_out = _equal(both, first) and _equal(turned, last) and not _equal(*alone)
            require(not left_out, f"for {[*titles]} in either order it draws the {place} alone")
        if trait(subject.build(), "side_by_side"):
            of_both, *of_one = (sum(each.numel() for each in some) for some in (both, *alone))
            report = f"it draws {of_both} numbers or letters of {[*titles]}, and {of_one} of each"
            require(of_both > max(of_one), report)
    if not applied:
        raise SkipTest("it does not apply to the runs of the kit")


def check_can_be_saved(subject: Subject) -> None:
    """A figure must be one that can be written as SVG and as PNG."""
    drawn = _picture_or_skip(subject, *BOTH)
    require("<svg" in svg(drawn) and bool(png(drawn)), "it cannot be written")


def check_is_deterministic(subject: Subject) -> None:
    """Equal runs must give an equal figure, whatever the generators' state and earlier figures."""
    first = subject.observe(subject.build())
    torch.rand(3)
    figure = subject.build(drawn=1)
    for title in ("plain", "conditional"):  # another run under the same title, too
        with contextlib.suppress(DoesNotApply):
            figure({title: _runs(subject)["plain"]})
    require_equal(observe(subject, figure), first)


def check_is_the_same_in_another_process(subject: Subject) -> None:
    """The same runs must give the same figure in every process, where sets may have another order."""
    folder = _runs(subject)["plain"].path.parent
    require_same_in_another_process(_drawn_of_all, subject.choice, str(folder))


def _drawn_of_all(choice: engine.Choice, folder: str) -> list[Tensor]:
    of = {title: "plain" if title == NOT_EVALUATED else title for title in FOLDERS}
    given = {title: Run(Path(folder) / FOLDERS[title], _pipeline(of[title])) for title in FOLDERS}
    # A file that a figure leaves in the working directory, against another law, must not stay there.
    with tempfile.TemporaryDirectory() as here, contextlib.chdir(here), seeded():
        try:
            artists, texts = _marks(choice.build()(given))
        except DoesNotApply as error:
            return [letters(str(error))]
    labels = [str(each.get_label()) for each in artists]
    # Labels that the figure gives: matplotlib's own begin with an underscore, and count artists.
    words = [letters(label) for label in labels if label and label[0] != "_"]
    return [*_of(artists), *_of(texts), *words]


def check_draws_each_run_under_its_title(subject: Subject) -> None:
    """What stands under a run's title must be of this run: two runs must not be exchanged.

    The numbers of a run may change beside another run.  The name of a run's folder must not stand in place
    of its title.
    """
    alone = [_labelled(_picture_or_skip(subject, each))[each] for each in BOTH]
    drawn = _picture_or_skip(subject, *BOTH)
    beside, words = _labelled(drawn), _words(drawn)
    together = [beside[each] for each in BOTH]
    for title in BOTH:
        named = FOLDERS[title] in words and title not in words
        require(not named, f"it names a run by its folder {FOLDERS[title]!r}, and not {title!r}")
    if not all((*alone, *together)):
        raise SkipTest("it labels nothing with the titles of runs")
    exchanged = _equal(together[0], alone[1]) and _equal(together[1], alone[0])
    require(
        not exchanged or _equal(*alone), "the numbers of each of two runs have the other's title"
    )


def _words(drawn: Figure) -> str:
    """All texts and labels."""
    from matplotlib.table import Cell
    from matplotlib.text import Text

    texts = [each.get_text() for each in drawn.findobj(Cell)] + drawn.findobj(Text)
    labels = [str(each.get_label()) for each in drawn.findobj()]
    return "\n".join([*(each.get_text() for each in texts), *labels])


def _labelled(drawn: Figure) -> dict[str, list[Tensor]]:
    """By title of a run, the numbers of artists with this title in their label or in that of their axes."""
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
    """A figure must not change a run, in its folder or in memory, nor matplotlib, pyplot or torch.

    Draw on a new ``matplotlib.figure.Figure``, or on one of ``ccl_plugins.figures.figure``.  Nothing was
    drawn of these runs before; matplotlib's settings are not its defaults, and a figure of the user is
    open.  Seed no global random generator, and keep the working directory.
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
        use = stack.enter_context(mock.patch("matplotlib.use"))
        before = _surroundings(folder)
        applied, figure = False, subject.build()
        with require_unchanged(lambda: [_held(run) for run in new.values()]):
            for titles in (["plain"], BOTH, [NOT_EVALUATED], [*new]):
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
        require(not use.called, "it called `matplotlib.use`, but the user chooses the backend")
        after = _surroundings(folder)
        other = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
        require(not other, f"it changed {', '.join(other)}")


def _surroundings(folder: Path) -> dict[str, Any]:
    """By name, what a figure could change beside runs."""
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
    """An open figure of the user, without an import of pyplot."""
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
        [[each.requires_grad, each.grad is None] for each in run.parts.method.parameters()],
        [dict(run.metrics), dict(run.before)],
        [[each.features, dict(each.metadata)] for each in frozen],
        [[each.values, dict(each.extras)] for each in run.condition_tables().values()],
        letters(json.dumps([run.record, added], default=str)),
    ]

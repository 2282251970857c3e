"""``ccl figures``: pictures of runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.cli.batch import RUNS, attempt, attempt_each
from ccl_plugins.cli.commands import Command, Mistake, argument, reporting_mistakes
from ccl_plugins.cli.evaluate import opened

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run

FIGURES = {
    "kernel_matrix": "the kernel of Z beside the conditional operator, of each run",
    "anchor": "one image, and the images that weigh most and least in its loss",
    "embedding_map": "the features in two dimensions, by label and by Z",
    "similarity": "how similar features are, against how similar Z is",
    "curves": "what was logged, over the steps",
    "information_plane": "what Z tells about the label, and beyond it",
    "bars": "the metrics with intervals",
    "kept_and_leaked": "how well the label is read from the features, against how well Z is",
}
"""The figures, and what each shows."""

PICTURED = 6
"""Runs side by side; of more configurations, the first."""


def _run(options: argparse.Namespace) -> int:
    """Draw what runs have learned and what conditioning did, each figure as SVG and PNG.

    A figure that does not apply to the runs is named with the reason.  Runs that differ in the seed alone
    share a color; where runs are drawn side by side, the first of each configuration is drawn.  The exit
    status is 1 if a run could not be read or a figure failed, and if nothing was drawn.
    """
    from ccl_plugins import figures
    from ccl_plugins.figures.samples import DoesNotApply, same_data

    only = _only(options.only)
    found: dict[Path, Run] = {}

    def read(folder: Path) -> None:
        run = opened(folder)
        with reporting_mistakes():
            _ = run.progress
        found[folder] = run

    failed = sum(map(bool, attempt_each(options.runs, read).values()))
    if not found:
        return 1
    runs = {title: found[folder] for title, folder in _titles([*found]).items()}
    with reporting_mistakes():
        if only != ["curves"]:
            same_data(runs)
    drawn = 0
    for name, draw in _drawings(runs, only, options.map):
        start = time.monotonic()
        print(f"{name}: ", end="", flush=True)

        def work(name: str = name, draw: Callable[[], Any] = draw) -> None:
            for file in figures.save(draw(), Path(options.out).expanduser() / name):
                print(f"{engine.shown(str(file))} ", end="")

        try:
            reason = attempt(name, work, passing=(DoesNotApply,))
        except DoesNotApply as error:
            print(f"left out: {engine.shown(str(error), 500)}")
            continue
        print("failed" if reason else f"({time.monotonic() - start:.1f} s)")
        failed += bool(reason)
        drawn += not reason
    return int(bool(failed) or not drawn)


def _only(names: str | None) -> list[str]:
    """The names that were given, in the order of the figures; all for None."""
    given = [*FIGURES] if names is None else [each.strip() for each in names.split(",")]
    for name in given:
        if name not in FIGURES:
            near = get_close_matches(name, FIGURES, 1)
            means = f"; did you mean {near[0]!r}?" if near else ""
            raise Mistake(f"there is no figure {name!r}{means} (there are {', '.join(FIGURES)})")
    return [name for name in FIGURES if name in given]


def _titles(folders: list[Path]) -> dict[str, Path]:
    """Titles of runs: the names of their folders or, where two are equal, their paths."""
    names = [folder.resolve().name for folder in folders]
    return {
        engine.shown(name if names.count(name) == 1 else str(folder)): folder
        for name, folder in zip(names, folders, strict=True)
    }


def _drawings(
    runs: Mapping[str, Run], only: list[str], projection: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The names of files, and what draws them."""
    from ccl_plugins import figures
    from ccl_plugins.figures.charts import grouped

    first = [each.runs[0] for each in grouped(runs)][:PICTURED]
    pictured = {title: run for title, run in runs.items() if run in first}
    options: dict[str, dict[str, Any]] = {"embedding_map": {"method": projection}}
    for name in only:
        if name == "kernel_matrix":
            for title, run in pictured.items():
                file = name if len(pictured) == 1 else f"{name}-{title.replace('/', '_')}"
                yield file, partial(figures.kernel_matrix, run)
            continue
        beside = name in ("anchor", "embedding_map", "similarity")
        draw: Callable[..., Any] = getattr(figures, name)
        yield name, partial(draw, pictured if beside else runs, **options.get(name, {}))


COMMAND = Command(
    _run,
    "ccl figures runs/color_digits_infonce runs/color_digits_fair --only embedding_map,anchor",
    RUNS,
    argument(
        "--out",
        default="figures",
        metavar="DIR",
        help="the folder of the figures; files that are there are replaced (default: %(default)s)",
    ),
    argument(
        "--only",
        metavar="NAME,...",
        help="; ".join(f"{name}: {text}" for name, text in FIGURES.items()) + " (default: all)",
    ),
    argument(
        "--map",
        choices=["tsne", "pca", "umap"],
        default="tsne",
        help="the projection of embedding_map; umap needs the extra umap (default: %(default)s)",
    ),
)

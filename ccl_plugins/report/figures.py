"""``ccl figures``: pictures of runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import ccl_registry as engine
from ccl_plugins.commands.base import add_runs, reporting_mistakes
from ccl_plugins.commands.batch import attempt
from ccl_plugins.commands.evaluate import readable
from ccl_plugins.kinds import registry


class Figures:
    """Draw what runs have learned and what conditioning did, each figure as SVG and PNG.

    `ccl list figure` names the figures, and `ccl info figure NAME` its options.  A figure that does not
    apply to the runs is named with the reason. Runs that differ only in the seed share a color; if
    runs are drawn side by side, the first of each configuration is drawn. The exit status is 1 if a
    run could not be read or a figure failed, and if nothing was drawn.
    """

    example = "ccl figures runs/infonce runs/fair --figure embedding_map --figure anchor"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_runs(parser)
        parser.add_argument(
            "--out",
            default="figures",
            metavar="DIR",
            help="the folder of the figures; files that are there are replaced (default: %(default)s)",
        )
        parser.add_argument(
            "--figure",
            action="append",
            metavar="NAME",
            help='a figure, or one with options as in a configuration: \'{use = "embedding_map", method ='
            ' "pca"}\'; may be given again (default: every figure on offer)',
        )
        parser.add_argument(
            "--print",
            action="store_true",
            help="for paper: one or two columns wide, black on white, and a PDF too",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.figures import save
        from ccl_plugins.figures.groups import first_of_each
        from ccl_plugins.figures.style import on_paper
        from ccl_plugins.protocols import DoesNotApply
        from ccl_plugins.report.pictures import draw

        with reporting_mistakes():
            figures = _figures(arguments.figure)
        read, missing = readable(arguments.runs)
        if not read:
            return 1
        failed = len(missing)
        runs = {title: read[folder] for title, folder in _titles([*read]).items()}
        first = first_of_each(runs)
        drawn = 0
        for name, choose in figures.items():
            start = time.monotonic()
            print(f"{name}: ", end="", flush=True)

            def work(name: str = name, choose: Callable[[], engine.Choice] = choose) -> None:
                figure, _ = draw(choose(), runs, first)
                for file in save(figure, Path(arguments.out).expanduser() / name):
                    print(f"{engine.escaped(str(file))} ", end="")

            try:
                with on_paper() if arguments.print else nullcontext():
                    reason = attempt(name, work, passing=(DoesNotApply,))
            except DoesNotApply as error:
                print(f"left out: {engine.escaped(str(error), 500)}")
                continue
            print("failed" if reason else f"({time.monotonic() - start:.1f} s)")
            failed += bool(reason)
            drawn += not reason
        return int(bool(failed) or not drawn)


def _figures(given: list[str] | None) -> dict[str, Callable[[], engine.Choice]]:
    """The names of files with the choices of their figures: the given figures, or all available ones.

    Raises:
        RegistryError: For an unknown figure, and options that it does not have.
    """
    from ccl_plugins.experiments.configuration import parse
    from ccl_plugins.report.pictures import offered_figures

    named: list[tuple[str, Callable[[], engine.Choice]]] = []
    for text in given or ():
        choice = registry().read("figure", parse(f"figure={text}")[1])
        named.append((choice.spec.name, partial(registry().read, "figure", choice)))
    if given is None:
        named = [(s.name, partial(registry().choose, "figure", s.id)) for s in offered_figures()]
    by_file: dict[str, Callable[[], engine.Choice]] = {}
    for name, choose in named:
        again = sum(other == name for other, _ in named[: len(by_file)])
        by_file[f"{name}-{again + 1}" if again else name] = choose
    return by_file


def _titles(folders: list[Path]) -> dict[str, Path]:
    """Titles of runs: the names of their folders or, where two are equal, their paths."""
    names = [folder.resolve().name for folder in folders]
    return {
        engine.escaped(name if names.count(name) == 1 else str(folder)): folder
        for name, folder in zip(names, folders, strict=True)
    }

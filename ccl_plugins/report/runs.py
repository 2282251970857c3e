"""The data of a report's runs: results, curves and findings, and the files that repeat the runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ccl_registry as engine
from ccl_plugins.experiments.curves import Curves, curves
from ccl_plugins.experiments.record import Record
from ccl_plugins.experiments.results import (
    Result,
    conditioned,
    groups_of,
    name_of,
    stem_of,
)
from ccl_plugins.figures.groups import MOST
from ccl_plugins.figures.samples import conditions_of
from ccl_plugins.files.checkpoints import versions
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.protocols import trait
from ccl_plugins.report.answers import ReportedGroup
from ccl_plugins.training.findings import read_findings

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run


class Runs:
    """Runs of a report.

    Args:
        runs: Runs with weights.
        results: The results of each.
    """

    def __init__(self, runs: Sequence[Run], results: Sequence[Result]) -> None:
        self.results = [*results]
        self.runs = {each.path: run for each, run in zip(results, runs, strict=True)}
        self.curves = {path: _curves(run) for path, run in self.runs.items()}
        self.groups = [
            ReportedGroup(
                group.runs,
                group.name,
                _reads(self.runs[group.runs[0].path], group.runs),
                [
                    (points[0][1], points[-1][1])
                    for each in group.runs
                    if (points := self.curves[each.path].get("loss"))
                ],
            )
            for group in groups_of(self.results)
        ]
        """The configurations."""
        first = Record(self.groups[0].record)
        self.same_data = [each for each in self.groups if first.is_on_data_of(each.record)]
        """The configurations on the data set of the first, which can be compared."""

    def first(self, each: ReportedGroup) -> Run:
        """The first run of a configuration."""
        return self.runs[each.runs[0].path]

    @property
    def titled(self) -> dict[str, Run]:
        """All runs that can be compared, by a short title."""
        return {
            each.name if len(each.runs) == 1 else f"{each.name}, seed {result.seed}": self.runs[
                result.path
            ]
            for each in self.same_data
            for result in each.runs
        }

    @property
    def pictured(self) -> dict[str, Run]:
        """The first run of each configuration, as many as a picture shows side by side."""
        return {each.name: self.first(each) for each in self.same_data[:MOST]}

    def findings(self) -> Iterator[dict[str, str]]:
        """The findings while runs were trained, once for each configuration."""
        for group in self.groups:
            lines: dict[str, list[str]] = {}
            for result in group.runs:
                for line in _diagnosed(self.runs[result.path].folder):
                    lines.setdefault(line, []).append(str(result.seed))
            for line, seeds in lines.items():
                many = len(group.runs) > 1
                label = f"{group.name}, seed {', '.join(seeds)}" if many else group.name
                yield {"label": label, "line": line}

    def files(self) -> list[str]:
        """A name for the file of each configuration, from that of its folders."""
        names: list[str] = []
        for group in self.groups:
            stem = stem_of(Path(name_of(group.runs)).name)
            kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in stem)
            name = kept.strip("-") or "run"
            again = sum(other == name or other.startswith(f"{name}--") for other in names)
            names.append(f"{name}--{again + 1}" if again else name)
        return names

    def commands(self) -> dict[str, str]:
        """The lines of a shell that repeat the runs."""
        lines, folders = [], []
        for each, stem in zip(self.groups, self.files(), strict=True):
            seeds = [str(result.seed) for result in each.runs]
            many = len(seeds) > 1
            more = ["--seeds", ",".join(seeds)] if many else []
            lines.append(shlex.join(["ccl", "train", f"{stem}.toml", *more]))
            folders += [f"runs/{stem}-seed-{seed}" for seed in seeds] if many else [f"runs/{stem}"]
        wanted = [f"{name}=={version}" for name, version in self.versions().items()]
        return {
            "install": shlex.join(["pip", "install", *wanted]),
            "commands": "\n".join([*lines, shlex.join(["ccl", "report", *folders])]),
        }

    def versions(self) -> dict[str, str]:
        """The versions that the runs were trained with, as far as they are known."""
        known: dict[str, Any] = {}
        for group in self.groups:
            try:
                known |= self.first(group).versions or versions()
            except (FileNotFoundError, DamagedFile, TypeError):
                known |= versions()
            plugins = group.record.get("versions")
            known |= plugins if isinstance(plugins, Mapping) else {}
        # What is copied into a shell is a name and a version, whatever a record holds.
        right = {n: str(v) for n, v in known.items() if engine.pip_install(n, str(v))}
        right.pop(engine.LOCAL, None)
        return right


def _reads(run: Run, results: Sequence[Result]) -> dict[str, str | None]:
    """The column that each condition of a run reads; None for one that reads none."""
    lost = {*(run.record.get("conditions") or ())}
    read: dict[str, str | None] = {}
    try:
        read = {name: trait(each, "column") for name, each in conditions_of(run).items()}
        lost -= {*run.recorded.conditions}
    except (ValueError, OSError):  # the data set is gone
        pass
    if lost:  # without their plug-in, the measurements say what they read
        columns = [each for each in conditioned(results) if each not in read.values()]
        read |= {each: each for each in columns} or dict.fromkeys(sorted(lost))
    return read


def _curves(run: Run) -> Curves:
    try:
        return curves(run)
    except (OSError, ValueError):  # said where the picture would be
        return {}


def _diagnosed(folder: RunFolder) -> list[str]:
    """The lines of a run's findings, with the step at which each was seen first."""
    try:
        return [f"{each.line} (step {each.step})" for each in read_findings(folder)]
    except ValueError as error:
        return [f"{error}: what was found while training is not known"]

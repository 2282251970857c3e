"""A report of runs: one HTML file that holds all it shows."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins._engine import engine
from ccl_plugins.experiments.as_toml import as_toml
from ccl_plugins.experiments.curves import Curves, curves
from ccl_plugins.experiments.neighbors import data_uri, nearest, thumbnail
from ccl_plugins.experiments.results import (
    Result,
    compare,
    configurations,
    differing,
    labels_of,
    name_of,
    result_of,
    spread,
    stem_of,
    visible,
)
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.files.checkpoints import DamagedCheckpoint, read_checkpoint, versions
from ccl_plugins.report import words
from ccl_plugins.report.words import Configuration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ccl_plugins.experiments.pipeline import Run

PICTURED = 6
"""The most configurations in a picture and among the neighbors."""

CURVED = 12
"""The most runs in the picture of curves."""

LARGEST = 400_000
"""Bytes of an SVG above which a picture is a PNG, which many points do not make larger."""

QUERIES = 5
"""Test samples whose neighbors are shown."""

NEIGHBORS = 6
"""Neighbors of each."""

BANK = 10_000
"""The most training samples among which they are looked for."""

UNDRAWN = (engine.RegistryError, ValueError, LookupError, OSError, RuntimeError)
"""What a figure raises for runs that it cannot show; the page says so in its place."""

TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    runs: Sequence[Run], out: str | Path, *, missing: Mapping[str, str] | None = None
) -> Path:
    """Write a report of runs: what differs, what was measured, pictures, and what it means in words.

    The file needs nothing else and loads nothing.  Its size is bounded: small pictures of at most 6
    configurations, and figures that are pixels where drawings would take more than 400 kB.  Runs of
    several data sets are shown, with a warning, and not compared with each other; the pictures and the
    answers are then about those of the first run's data set.

    Args:
        runs: The runs; those that differ in the seed alone become one column.
        out: The file.
        missing: Why further runs are not shown, by their names.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If no run has weights.
        ValueError: If there are no runs.
        OSError: If the file cannot be written, as on a full disk; an older one stays whole.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    if not runs:
        raise ValueError("a report needs a run")
    out = Path(out).expanduser()
    missing = dict(missing or {})
    results: dict[int, Result] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i, run in enumerate(runs):
            try:
                results[i] = result_of(run)
            except (FileNotFoundError, ValueError) as error:  # a damaged checkpoint is a ValueError
                if len(runs) == 1:
                    raise
                missing[str(run.path)] = str(error)
    said = list(dict.fromkeys(str(each.message) for each in caught))
    for text in said:
        warnings.warn(text, stacklevel=2)
    if not results:
        raise FileNotFoundError("; ".join(dict.fromkeys(missing.values())))
    shown = Shown([runs[i] for i in results], [*results.values()], missing, said)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template("report.html").render(**shown.page())
    with atomic_write(out) as temporary:
        temporary.write_text(page, "utf-8", errors="backslashreplace")
    return out


class Shown:
    """What a report shows.

    Args:
        runs: Runs with weights.
        results: What is known of each.
        missing: Why further runs are not shown, by their names.
        said: What was wrong with files of the runs.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        results: Sequence[Result],
        missing: Mapping[str, str],
        said: Sequence[str],
    ) -> None:
        self.results = [*results]
        self.missing = missing
        self.said = said
        self.runs = {each.path: run for each, run in zip(results, runs, strict=True)}
        self.curves = {path: _curves(run) for path, run in self.runs.items()}
        groups = configurations(self.results)
        self.groups = [
            Configuration(
                label,
                group,
                [ends["loss"] for each in group if "loss" in (ends := self._ends(each.path))],
                [self._ends(each.path) for each in group],
            )
            for label, group in zip(labels_of(groups), groups, strict=True)
        ]
        self.findings = [*self._findings()]
        self.files = _file_names(self.groups)
        first = self.groups[0]
        self.same_data = [each for each in self.groups if _dataset(each) == _dataset(first)]

    def page(self) -> dict[str, Any]:
        """The values of the template."""
        style, script = (
            (TEMPLATES / f"report.{end}").read_text("utf-8").strip() for end in ("css", "js")
        )
        from markupsafe import Markup

        return {
            "title": " and ".join(each.label for each in self.groups[:3])
            + (f" and {len(self.groups) - 3} more" if len(self.groups) > 3 else ""),
            "style": Markup(style),
            "script": Markup(script),
            "style_hash": _hash(style),
            "script_hash": _hash(script),
            "made": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
            "count": f"{len(self.results)} {'run' if len(self.results) == 1 else 'runs'}",
            "dataset": words.component(self.groups[0].record.get("dataset")),
            "answers": words.answers(self.same_data, self._chance()),
            "warnings": [*self._warnings()],
            "sections": [
                ("settings", "What was compared"),
                ("metrics", "What was measured"),
                ("kept", "What is kept and what leaks"),
                ("curves", "How training went"),
                ("pictures", "Pictures"),
                ("neighbors", "Nearest neighbors"),
                ("reproduce", "How to reproduce it"),
            ],
            "configurations": [*self._configurations()],
            "differences": differing([each.record for each in self.groups]),
            **self._measured(),
            **self._leaks(),
            **self._training(),
            **self._pictures(),
            **self._neighbors(),
            **self._reproduce(),
        }

    def _ends(self, path: Path) -> dict[str, tuple[float, float]]:
        """The first and the last value of each scalar of a run."""
        scalars = self.curves[path].items()
        return {name: (points[0][1], points[-1][1]) for name, points in scalars if points}

    def _chance(self) -> float | None:
        """The accuracy of naming the most frequent label; None where the data cannot be read."""
        import torch

        try:
            _, test = self.runs[self.results[0].path].splits
            labels = torch.as_tensor(test.metadata["label"])
            return float(labels.unique(return_counts=True)[1].max()) / len(labels)
        except UNDRAWN:  # the page says so where the pictures would be
            return None

    def _findings(self) -> Iterator[dict[str, str]]:
        """What was found to be off while runs were trained, once for each configuration."""
        for each in self.groups:
            lines: dict[str, list[str]] = {}
            for result in each.results:
                for line in _diagnosed(self.runs[result.path].layout.diagnosis):
                    lines.setdefault(line, []).append(str(result.seed))
            for line, seeds in lines.items():
                many = len(each.results) > 1
                label = f"{each.label}, seed {', '.join(seeds)}" if many else each.label
                yield {"label": label, "line": line}

    def _warnings(self) -> Iterator[str]:
        for name, reason in self.missing.items():
            yield f"{name} is not shown: {reason}"
        yield from self.said
        if len(self.same_data) < len(self.groups):
            others = [each.label for each in self.groups if each not in self.same_data]
            yield (
                f"{', '.join(others)}: another data set than {self.groups[0].label}. Numbers of different"
                " data sets cannot be compared; the answers, the pictures and the neighbors leave"
                " these runs out."
            )
        for each in self.groups:
            if each.results[0].state:
                yield f"{each.label} is not finished: {each.results[0].state}."
            if not any(result.after for result in each.results):
                yield f"{each.label} was not measured: ccl evaluate {each.results[0].path}"
        if self.findings:
            n = len(self.findings)
            what = "something looked wrong" if n == 1 else f"{n} things looked wrong"
            yield f"While training, {what}: see How training went."
        seeds = {len(each.results) for each in self.same_data}
        if len(self.same_data) > 1 and min(seeds) < 5:
            few = "1 seed is few" if min(seeds) == 1 else f"{min(seeds)} seeds are few"
            yield f"{few}: five or more tell a difference from luck more surely."

    def _configurations(self) -> Iterator[dict[str, Any]]:
        for each, stem in zip(self.groups, self.files, strict=True):
            text, note = as_toml(each.record), ""
            if "local/" in json.dumps(each.record):
                note = (
                    "This run used objects of a session (local/...): it can be rebuilt only where they are"
                    " defined."
                )
            yield {
                "label": each.label,
                "objective": each.objective,
                "conditions": ", ".join(each.conditions.values()),
                "seeds": ", ".join(str(result.seed) for result in each.results),
                "state": each.results[0].state,
                "file": f"{stem}.toml",
                "toml": text,
                "note": note,
                "path": name_of(each.results),
                "paths": ", ".join(str(result.path) for result in each.results),
            }

    def _measured(self) -> dict[str, Any]:
        labels = {str(each.results[0].path): each.label for each in self.groups}
        rows = [row for row in compare(self.results) if row["metric"] is not None]
        tests = [row["test"] for row in rows if row["test"] is not None]
        notes = []
        for n in sorted({test["n"] for test in tests}):
            if n < 2:
                notes.append(
                    "Where n is 1, nobody can say whether a difference is luck: there is no p."
                )
            else:
                notes.append(
                    f"With {n} seeds in common, only a mean difference of {visible(n):.1f} times its spread"
                    " over the seeds gets p below 0.05."
                )
        if len(tests) > 5:
            notes.append(
                f"There are {len(tests)} tests here: about one in twenty is below 0.05 by luck."
            )
        return {
            "metrics": [
                {
                    "name": name,
                    "meaning": words.meaning(name),
                    "rows": [
                        _cells(row, labels[row["runs"][0]]) for row in rows if row["metric"] == name
                    ],
                }
                for name in dict.fromkeys(row["metric"] for row in rows)
            ],
            "tested": self.groups[0].label if tests else "",
            "test_notes": notes,
            "bars": self._draw("bars", "Metrics", "The same numbers as bars.", self._titled())
            if rows
            else None,
        }

    def _leaks(self) -> dict[str, Any]:
        names = dict.fromkeys(name for each in self.results for name in each.after)
        columns = dict.fromkeys(column for name in names if (column := words.probed(name)))
        metrics = [words.metric_of(column, names) for column in columns]
        points = [
            {
                "label": label,
                "values": [
                    f"{run.metrics[name]:.4g}" if name in run.metrics else "" for name in metrics
                ],
            }
            for label, run in self._titled().items()
        ]
        caption = (
            "One point per run: across, how well a probe reads Z; up, how well one reads the label."
        )
        return {
            "leaks": self._draw("kept_and_leaked", "Kept and leaked", caption, self._titled()),
            "points": points if metrics else [],
            "point_names": metrics,
        }

    def _training(self) -> dict[str, Any]:
        titled = dict([*self._titled().items()][:CURVED])
        rows = [
            {
                "label": label,
                "first": f"{points[0][1]:.4g}",
                "last": f"{points[-1][1]:.4g}",
                "steps": points[-1][0],
                "seconds": _seconds(run.costs.get("training")),
                "monitors": f"{share:.1%}" if (share := run.costs.get("monitors_share")) else "",
            }
            for label, run in self._titled().items()
            if (points := self.curves[run.path].get("loss"))
        ]
        more = f" The first {CURVED} runs." if len(self.runs) > CURVED else ""
        caption = (
            "What the runs logged over their optimizer steps. label/ is how well the label is read while"
            f" training, the name of a condition how well that is.{more}"
        )
        return {
            "curves": self._draw("curves", "Curves", caption, titled),
            "losses": rows,
            "findings": self.findings,
            "checked": all(run.layout.diagnosis.is_file() for run in self.runs.values()),
        }

    def _pictures(self) -> dict[str, Any]:
        pictured = self._pictured()
        first = next((each for each in self.same_data if each.conditions), None)
        pictures = [
            self._draw(
                "embedding_map",
                "Map of the features",
                "Test images in two dimensions, similar features near each other, colored by what they"
                " show. Where colors form groups, the features hold that.",
                pictured,
            ),
            self._draw(
                "anchor",
                "One image and what it is compared with",
                "The images that weigh most and least for one anchor image in each run's loss.",
                pictured,
            ),
        ]
        if first is not None:
            run = self.runs[first.results[0].path]
            pictures += [
                self._draw(
                    "kernel_matrix",
                    f"Kernel of the condition in {first.label}",
                    "How alike samples are by Z, and what weight that gives them.",
                    run,
                ),
                self._draw(
                    "similarity",
                    f"Features against the condition in {first.label}",
                    "Pairs of samples: how alike they are by Z, and how similar their features are.",
                    run,
                ),
                self._draw(
                    "information_plane",
                    "Information plane",
                    "What each categorical condition says about the label, and what it says beside.",
                    self._titled(),
                ),
            ]
        return {
            "pictures": [each for each in pictures if each["src"]],
            "undrawn": [each for each in pictures if not each["src"]],
            "unpictured": ", ".join(each.label for each in self.same_data[PICTURED:]),
        }

    def _draw(self, name: str, title: str, caption: str, subject: Any) -> dict[str, Any]:
        """A figure of `ccl_plugins.figures` with its caption, or why it cannot be drawn."""
        from ccl_plugins import figures

        drawn = {"title": title, "caption": caption, "alt": f"{title}. {caption}"}
        try:
            figure = getattr(figures, name)(subject)
            return {**drawn, **_embedded(figure)}
        except UNDRAWN as error:
            reason = str(error) or type(error).__name__
            return {**drawn, "src": "", "reason": reason}

    def _titled(self) -> dict[str, Run]:
        """All runs on the first data set by a short title."""
        return {
            each.label
            if len(each.results) == 1
            else f"{each.label}, seed {result.seed}": self.runs[result.path]
            for each in self.same_data
            for result in each.results
        }

    def _pictured(self) -> dict[str, Run]:
        """The first run of each configuration."""
        return {each.label: self.runs[each.results[0].path] for each in self.same_data[:PICTURED]}

    def _neighbors(self) -> dict[str, Any]:
        ranks = range(1, NEIGHBORS + 1)
        try:
            queries = [*_neighbors(self._pictured())]
            return {"neighbors": {"queries": queries}, "ranks": ranks}
        except UNDRAWN as error:
            return {"neighbors": {"queries": [], "reason": str(error)}, "ranks": ranks}

    def _versions(self) -> dict[str, str]:
        """The versions that the runs were trained with, as far as they are known."""
        found: dict[str, Any] = {}
        for each in self.groups:
            file = self.runs[each.results[0].path].layout.weights
            try:
                found |= read_checkpoint(file)["versions"] if file.is_file() else versions()
            except (DamagedCheckpoint, KeyError, TypeError):
                found |= versions()
            plugins = each.record.get("versions")
            found |= plugins if isinstance(plugins, Mapping) else {}
        # What is copied into a shell is a name and a version, whatever a record holds.
        right = {n: str(v) for n, v in found.items() if engine.pip_install(n, str(v))}
        right.pop(engine.LOCAL, None)
        return right

    def _reproduce(self) -> dict[str, Any]:
        lines, folders = [], []
        for each, stem in zip(self.groups, self.files, strict=True):
            seeds = [str(result.seed) for result in each.results]
            many = len(seeds) > 1
            words = [
                "ccl",
                "train",
                f"{stem}.toml",
                *(["--seeds", ",".join(seeds)] if many else []),
            ]
            lines.append(shlex.join(words))
            folders += [f"runs/{stem}-seed-{seed}" for seed in seeds] if many else [f"runs/{stem}"]
        wanted = [f"{name}=={version}" for name, version in self._versions().items()]
        return {
            "install": shlex.join(["pip", "install", *wanted]),
            "commands": "\n".join([*lines, shlex.join(["ccl", "report", *folders])]),
        }


def _file_names(groups: Sequence[Configuration]) -> list[str]:
    """A name for the file of each configuration, from that of its folders."""
    found: list[str] = []
    for each in groups:
        stem = stem_of(Path(name_of(each.results)).name)
        kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in stem)
        name = kept.strip("-") or "run"
        again = sum(other == name or other.startswith(f"{name}--") for other in found)
        found.append(f"{name}--{again + 1}" if again else name)
    return found


def _dataset(configuration: Configuration) -> Any:
    return configuration.record.get("dataset")


def _curves(run: Run) -> Curves:
    try:
        return curves(run)
    except (OSError, ValueError):  # said where the picture would be
        return {}


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def _diagnosed(file: Path) -> list[str]:
    """The lines of a run's findings, with the step at which each was seen first."""
    if not file.is_file():
        return []
    try:
        found = json.loads(file.read_text("utf-8"))
        return [f"{each['line']} (step {each['step']})" for each in found]
    except (ValueError, TypeError, KeyError):
        return [f"{file} is damaged: what was found while training is not known"]


def _cells(row: Mapping[str, Any], label: str) -> dict[str, Any]:
    """The cells of a row of the table of metrics."""
    test = row["test"]
    difference = p = ""
    if test is not None and test["difference"] is not None:
        sign = "+" if test["difference"] > 0 else ""
        difference = sign + spread(test["difference"], test["deviation"])
        p = f"{test['p']:.2g}" if test["p"] is not None else test["note"]
    return {
        "label": label,
        "n": row["n"],
        "before": spread(row["before"], row["before_deviation"]) or "not measured",
        "after": spread(row["after"], row["after_deviation"], row["interval"]) or "not measured",
        "difference": difference,
        "p": p,
    }


def _embedded(figure: Figure) -> dict[str, Any]:
    """A figure as an image that holds itself, with its size in pixels of the page."""
    from ccl_plugins.figures.style import png, svg

    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    content, media_type = svg(figure).encode(), "image/svg+xml"
    if len(content) > LARGEST:
        content, media_type = png(figure), "image/png"
    return {"src": data_uri(content, media_type), "width": width, "height": height}


def _neighbors(runs: Mapping[str, Run]) -> Iterator[dict[str, Any]]:
    """For some test samples, the nearest training samples by each run's features."""
    import torch

    first = next(iter(runs.values()))
    train, test = first.splits
    labels, known = (torch.as_tensor(split.metadata["label"]) for split in (test, train))
    rows = _queries(labels)
    # Features of millions of images would take hours, for five rows of pictures.
    bank = torch.linspace(0, len(known) - 1, min(BANK, len(known)), dtype=torch.float64).long()
    places = bank.tolist()
    k = min(NEIGHBORS, len(places))
    found = {}
    for name, run in runs.items():
        train_split, test_split = run.splits
        features = (
            run.features("train").features
            if len(places) == len(train_split)
            else run.encode(_Images(train_split, places))
        )
        found[name] = bank[nearest(run.encode(_Images(test_split, rows)), features, k)[0]]
    for place, row in enumerate(rows):
        yield {
            "index": row,
            "label": _word(test, labels[row]),
            "src": _picture(test[row][0]),
            "rows": [
                {
                    "label": name,
                    "found": [
                        {
                            "index": i,
                            "label": _word(train, known[i]),
                            "same": bool(known[i] == labels[row]),
                            "src": _picture(train[i][0]),
                        }
                        for i in each[place].tolist()
                    ],
                }
                for name, each in found.items()
            ],
        }


class _Images(Sequence[Any]):
    """The images of some samples, read when they are asked for.

    Args:
        split: A torch Dataset of ``(image, ...)``.
        rows: The samples.
    """

    def __init__(self, split: Any, rows: Sequence[int]) -> None:
        self.split, self.rows = split, rows

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        """An image, or those of a slice as a list."""
        if isinstance(place, slice):
            return [self.split[row][0] for row in self.rows[place]]
        return self.split[self.rows[place]][0]


def _picture(image: Any) -> str:
    found = thumbnail(image)
    return data_uri(*found) if found else ""


def _queries(labels: Any) -> list[int]:
    """The first test sample of each of some classes, evenly spaced among all."""
    classes = labels[labels >= 0].unique().tolist()
    if not classes:
        return list(range(min(QUERIES, len(labels))))
    n = min(QUERIES, len(classes))
    chosen = [classes[i * len(classes) // n] for i in range(n)]
    return [int((labels == each).nonzero()[0]) for each in chosen]


def _word(split: Any, label: Any) -> str:
    words = getattr(split, "vocabulary", {}).get("label")
    return str(words[int(label)]) if words and int(label) >= 0 else str(int(label))


def _hash(text: str) -> str:
    """What a page's security policy knows a script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

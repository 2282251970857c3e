"""A report of runs: one HTML file without other files."""

from __future__ import annotations

import base64
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import ccl_registry as engine
from ccl_plugins.experiments.record import Record, differing
from ccl_plugins.experiments.recorded import loading, lost_objects
from ccl_plugins.experiments.results import (
    Result,
    compare_results,
    judged_by,
    name_of,
    result_of,
    spread,
    visible,
)
from ccl_plugins.files.atomic import atomic_write
from ccl_plugins.report.answers import answers, component, explained
from ccl_plugins.report.pictures import NEIGHBORS, neighbors, pictures
from ccl_plugins.report.runs import Runs

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run

TEMPLATES = Path(__file__).parent / "templates"

SECTIONS = {
    "settings": "What was compared",
    "metrics": "What was measured",
    "kept": "What is kept and what leaks",
    "curves": "How training went",
    "pictures": "Pictures",
    "neighbors": "Nearest neighbors",
    "reproduce": "How to reproduce it",
}

BESIDE = {"bars", "kept_and_leaked", "curves"}
"""The figures that are shown in the section of their subject; all others are in Pictures."""


def write_report(
    runs: Sequence[Run], out: str | Path, *, missing: Mapping[str, str] | None = None
) -> Path:
    """Write a report of runs: their differences, measurements, pictures, and the meaning in words.

    The file needs no other file and loads nothing. It has every available figure that applies. Its
    size is bounded: small pictures of at most 6 configurations, and figures that are pixels if
    drawings would take more than 400 kB. Runs of several data sets are shown, with a warning, and
    not compared with each other; the pictures and the answers are then about those of the first
    run's data set.

    Args:
        runs: The runs; runs that differ only in the seed become one column.
        out: The file.
        missing: The reasons why further runs are not shown, by their names.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If no run has weights.
        ValueError: If there are no runs.
        OSError: If the file cannot be written, as on a full disk; an older one stays whole.
    """
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
    report = Runs([runs[i] for i in results], [*results.values()])
    said = [*(f"{name} is not shown: {reason}" for name, reason in missing.items()), *said]
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template("report.html").render(**_page(report, said))
    with atomic_write(out) as temporary:
        temporary.write_text(page, "utf-8", errors="backslashreplace")
    return out


def _page(report: Runs, said: Sequence[str]) -> dict[str, Any]:
    """The values of the template."""
    style, script = (
        (TEMPLATES / f"report.{end}").read_text("utf-8").strip() for end in ("css", "js")
    )
    groups, findings = report.groups, [*report.findings()]
    drawn = pictures(report.titled, report.pictured)
    others = [each for name, each in drawn.items() if name not in BESIDE]
    rows = [row for row in compare_results(report.results) if row["metric"] is not None]
    return {
        "title": " and ".join(each.name for each in groups[:3])
        + (f" and {len(groups) - 3} more" if len(groups) > 3 else ""),
        "style": Markup(style),
        "script": Markup(script),
        "style_hash": _hash(style),
        "script_hash": _hash(script),
        "made": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "count": f"{len(report.results)} {'run' if len(report.results) == 1 else 'runs'}",
        "dataset": component(groups[0].record.get("dataset")),
        "answers": answers(report.same_data),
        "warnings": [*said, *_warnings(report, len(findings))],
        "sections": SECTIONS.items(),
        "configurations": [*_configurations(report)],
        "differences": differing([each.record for each in groups]),
        **_measured(report, rows),
        "bars": drawn["bars"] if rows else None,
        "leaks": drawn["kept_and_leaked"],
        **_points(report),
        "curves": drawn["curves"],
        "losses": [*_losses(report)],
        "findings": findings,
        "checked": all(run.folder.diagnosis.is_file() for run in report.runs.values()),
        "pictures": [each for each in others if each["src"]],
        "undrawn": [each for each in others if not each["src"]],
        "unpictured": ", ".join(
            each.name for each in report.same_data if each.name not in report.pictured
        ),
        **_neighbors(report.pictured),
        **report.commands(),
    }


def _warnings(report: Runs, findings: int) -> Iterator[str]:
    others = [each.name for each in report.groups if each not in report.same_data]
    if others:
        yield (
            f"{', '.join(others)}: another data set than {report.groups[0].name}. Numbers of different"
            " data sets cannot be compared; the answers, the pictures and the neighbors leave"
            " these runs out."
        )
    for group in report.groups:
        if group.runs[0].state:
            yield f"{group.name} is not finished: {group.runs[0].state}."
        if not any(result.after for result in group.runs):
            yield f"{group.name} was not measured: ccl evaluate {group.runs[0].path}"
    if findings:
        what = "something looked wrong" if findings == 1 else f"{findings} things looked wrong"
        yield f"While training, {what}: see How training went."
    seeds = {len(each.runs) for each in report.same_data}
    if len(report.same_data) > 1 and min(seeds) < 5:
        few = "1 seed is few" if min(seeds) == 1 else f"{min(seeds)} seeds are few"
        yield f"{few}: five or more tell a difference from luck more surely."


def _configurations(report: Runs) -> Iterator[dict[str, Any]]:
    for each, stem in zip(report.groups, report.files(), strict=True):
        text, note = Record(each.record).to_toml(), ""
        if lost := lost_objects(each.record):
            note = (
                "This run used objects of a session (local/...): it can be rebuilt only with them, as"
                f" {loading(lost, each.runs[0].path)}."
            )
        yield {
            "label": each.name,
            "objective": component(each.record.get("objective")),
            "conditions": ", ".join(each.conditions.values()),
            "seeds": ", ".join(str(result.seed) for result in each.runs),
            "state": each.runs[0].state,
            "file": f"{stem}.toml",
            "toml": text,
            "note": note,
            "path": name_of(each.runs),
            "paths": ", ".join(str(result.path) for result in each.runs),
        }


def _measured(report: Runs, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    labels = {str(each.runs[0].path): each.name for each in report.groups}
    named = {name_of(each.runs): each.name for each in report.groups}
    tests = [row["test"] for row in rows if row["test"] is not None]
    against = [*dict.fromkeys(named[test["against"]] for test in tests)]
    notes = [
        f"With {n} seeds in common, only a mean difference of {visible(n):.1f} times its spread over the"
        " seeds gets p below 0.05."
        if n > 1
        else "With one seed in common, it is unknown whether a difference is luck: there is no p."
        if n
        else "Runs without a seed in common have no difference."
        for n in sorted({test["n"] for test in tests})
    ]
    if (number := sum(test["p"] is not None for test in tests)) > 5:
        notes.append(f"There are {number} tests here: about one in twenty is below 0.05 by luck.")
    metrics: dict[str, dict[str, Any]] = {}
    for row in rows:
        meaning = explained(row["sentence"] or "", row["chance"])
        about = {"name": row["metric"], "meaning": meaning, "rows": []}
        metric = metrics.setdefault(row["metric"], about)
        metric["rows"].append(_cells(row, labels[row["runs"][0]]))
    return {
        "metrics": [*metrics.values()],
        "tested": against,
        "test_notes": notes,
    }


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


def _points(report: Runs) -> dict[str, Any]:
    """The numbers by which columns are judged, of each run."""
    names = [*judged_by(report.results).values()]
    measured = {label: run.metrics for label, run in report.titled.items()} if names else {}
    points = [
        {"label": label, "values": [f"{metrics[n]:.4g}" if n in metrics else "" for n in names]}
        for label, metrics in measured.items()
    ]
    return {"points": points, "point_names": names}


def _losses(report: Runs) -> Iterator[dict[str, Any]]:
    for label, run in report.titled.items():
        if points := report.curves[run.path].get("loss"):
            costs = run.costs
            yield {
                "label": label,
                "first": f"{points[0][1]:.4g}",
                "last": f"{points[-1][1]:.4g}",
                "steps": points[-1][0],
                "seconds": _seconds(costs.get("training")),
                "monitors": f"{share:.1%}" if (share := costs.get("monitors_share")) else "",
            }


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def _neighbors(pictured: Mapping[str, Run]) -> dict[str, Any]:
    shown: dict[str, Any] = {"queries": []}
    try:
        shown = {"queries": [*neighbors(pictured)]}
    except Exception as error:  # a plug-in's fault costs these pictures alone
        shown["reason"] = engine.one_line(error)
    return {"neighbors": shown, "ranks": range(1, NEIGHBORS + 1)}


def _hash(text: str) -> str:
    """The hash of a script or style for the page's security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

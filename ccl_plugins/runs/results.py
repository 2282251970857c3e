"""The results of several runs side by side: seeds of one configuration together, each before and after."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ccl_plugins.pipeline.changes import FREE


@dataclass(frozen=True)
class Result:
    """What is known of a run.

    Args:
        path: Its folder, by which tables name it.
        before: The metrics before training.
        after: The metrics of its weights.
        state: Why there are no results of a finished run, as "step 12 of 150"; empty if there are.
        record: Its record; runs whose records differ in the seed alone are one configuration.
    """

    path: Path
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    state: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)


def compare(results: Iterable[Result]) -> list[dict[str, Any]]:
    """One row for each metric and configuration, metrics together; then runs without any metric.

    Finished runs that differ in the seed alone share a row with the means and the standard deviations
    (n - 1) over the seeds, which are None for a single run.
    """
    groups = _configurations(list(results))
    names = dict.fromkeys(
        name for group in groups for each in group for name in (*each.before, *each.after)
    )
    rows = [
        _row(name, group)
        for name in names
        for group in groups
        if any(name in each.before or name in each.after for each in group)
    ]
    empty = [group for group in groups if not (group[0].before or group[0].after)]
    return rows + [_row(None, group) for group in empty]


def _row(metric: str | None, group: Sequence[Result]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "metric": metric,
        "run": _name([each.path for each in group]),
        "n": len(group),
    }
    for time in ("before", "after"):
        values = [v for each in group if (v := getattr(each, time).get(metric)) is not None]
        whole = len(values) == len(group)
        row[time] = statistics.fmean(values) if whole else None
        row[f"{time}_deviation"] = statistics.stdev(values) if whole and len(values) > 1 else None
    row["state"] = group[0].state
    row["runs"] = [str(each.path) for each in group]
    return row


def _configurations(results: Sequence[Result]) -> list[list[Result]]:
    """Finished runs of one configuration with different seeds together, the others alone, in order."""
    groups: dict[Any, list[Result]] = {}
    for i, each in enumerate(results):
        alone = bool(each.state) or not each.record
        groups.setdefault(i if alone else _configuration(each.record), []).append(each)
    found: list[list[Result]] = []
    for group in groups.values():
        by_folder: dict[Path, list[Result]] = {}
        for each in group:
            by_folder.setdefault(each.path.parent, []).append(each)
        # The same seed twice is no second sample: such runs differ in something that no record has.
        for some in [group] if _seeds_differ(group) else by_folder.values():
            found += [some] if _seeds_differ(some) else [[each] for each in some]
    return sorted(found, key=lambda group: results.index(group[0]))


def _seeds_differ(group: Sequence[Result]) -> bool:
    seeds = [each.record.get("fit", {}).get("seed") for each in group]
    return len(set(seeds)) == len(seeds)


def _configuration(record: Mapping[str, Any]) -> str:
    """A run's record without the seed, and without what does not change the training."""
    fit = {
        name: value
        for name, value in record.get("fit", {}).items()
        if name != "seed" and f"fit.{name}" not in FREE
    }
    rest = {name: value for name, value in record.items() if name not in ("fit", "callbacks")}
    return json.dumps({**rest, "fit": fit}, sort_keys=True)


def _name(paths: Sequence[Path]) -> str:
    """The path of a run, or what those of several begin with and a star: ``runs/fair-seed-*``."""
    names = [str(path) for path in paths]
    if len(names) == 1:
        return names[0]
    begin = os.path.commonprefix(names)  # noqa: RUF071 - of characters, not of folders
    return f"{begin}*" if begin.strip("./") else ", ".join(names)

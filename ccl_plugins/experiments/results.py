"""The results of several runs side by side: seeds of one configuration together, each before and after.

Two configurations are compared seed by seed: runs with the same seed begin with the same weights
and see the same samples, so their differences vary less than the runs.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ccl_plugins.experiments.record import Record, differing

if TYPE_CHECKING:
    from ccl_plugins.experiments.pipeline import Run
    from ccl_plugins.protocols import Measurement

ALPHA = 0.05
"""Differences with a smaller p are unlikely to be chance."""


@dataclass(frozen=True)
class Result:
    """The results of a run.

    Args:
        path: Its folder, which is its name in tables.
        before: The measurements before training, by name.
        after: The measurements of its weights, by name.
        state: The reason for missing results, such as "step 12 of 150"; empty for a finished run.
        record: Its record; runs whose records differ only in the seed are one configuration.
    """

    path: Path
    before: Mapping[str, Measurement] = field(default_factory=dict)
    after: Mapping[str, Measurement] = field(default_factory=dict)
    state: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> Any:
        """The seed of its training; None without a record."""
        return self.record.get("fit", {}).get("seed")


class Estimate(NamedTuple):
    """A measurement over runs.

    Args:
        n: The number of runs with this measurement.
        mean: The mean over these runs; None without any.
        deviation: The standard deviation (n - 1); None for fewer than two.
        interval: The interval of a single run over test samples, if the evaluator gives one.
    """

    n: int
    mean: float | None
    deviation: float | None
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        return spread(*self[1:])


@dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed.

    Args:
        runs: The results of each run, a `Result` or another object with a seed and measurements.
        name: A short name.
    """

    runs: Sequence[Any]
    name: str = ""

    @property
    def record(self) -> Mapping[str, Any]:
        """The record of its first run."""
        record: Mapping[str, Any] = self.runs[0].record
        return record

    def by_seed(self, measurement: str, time: str = "after") -> dict[Any, float]:
        """The values of a measurement in the runs that have it."""
        times = ((run.seed, getattr(run, time)) for run in self.runs)
        return {seed: found[measurement].value for seed, found in times if measurement in found}

    def estimate(self, measurement: str, time: str = "after") -> Estimate:
        """The summary of a measurement over the runs that have it."""
        values = [*self.by_seed(measurement, time).values()]
        mean = statistics.fmean(values) if values else None
        deviation = statistics.stdev(values) if len(values) > 1 else None
        found = (getattr(run, time).get(measurement) for run in self.runs)
        interval = next(each.interval for each in found if each) if len(values) == 1 else None
        return Estimate(len(values), mean, deviation, interval)


def result_of(run: Run) -> Result:
    """The results of a run, without measuring it.

    Raises:
        FileNotFoundError: If it has no weights.
        DamagedFile: If no weights can be read.
    """
    step, total = run.progress
    state = "" if step >= total else f"step {step} of {total}"
    before, after = run.measurements("before"), run.measurements("after")
    return Result(run.path, before, after, state, run.record)


@dataclass(frozen=True)
class Paired:
    """The mean difference of a metric between configurations, over the seeds that both have.

    Args:
        n: The number of these seeds.
        difference: The mean of second - first; None without a common seed.
        deviation: The standard deviation (n - 1) of the differences; None for fewer than two.
        p: The probability of a mean difference of this size or more by chance, by a paired t-test;
            None if the test is undefined.
        note: The reason why there is no p, or empty.
    """

    n: int
    difference: float | None = None
    deviation: float | None = None
    p: float | None = None
    note: str = ""


def paired(first: Mapping[Any, float], second: Mapping[Any, float]) -> Paired:
    """Compare two configurations by the values of a metric, given by seed.

    Source:
        Student, The Probable Error of a Mean (1908), through `scipy.stats.ttest_rel`.
    """
    from scipy.stats import ttest_rel

    seeds = [seed for seed in first if seed is not None and seed in second]
    pairs = [(first[seed], second[seed]) for seed in seeds]
    if not all(map(math.isfinite, (value for pair in pairs for value in pair))):
        return Paired(len(seeds), note="not finite with every seed")
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    n = len(seeds)
    if n == 0:
        return Paired(0, note="no seed in common")
    difference = statistics.fmean(y - x for x, y in zip(a, b, strict=True))
    if n == 1:
        return Paired(1, difference, note="one seed in common")
    deviation = statistics.stdev([y - x for x, y in zip(a, b, strict=True)])
    # Below the rounding of the values the test would divide by nothing.
    if deviation <= 1e-12 * max(1e-300, *map(abs, (*a, *b))):
        return Paired(n, difference, 0.0, note="the same difference with every seed")
    return Paired(n, difference, deviation, float(ttest_rel(b, a).pvalue))


def visible(n: int, tests: int = 1) -> float:
    """The least mean difference, in deviations of the differences, with p below `ALPHA` for n seeds.

    With p corrected for a number of ``tests``.
    """
    from scipy.stats import t

    return float(t.ppf(1 - ALPHA / 2 / tests, n - 1)) / math.sqrt(n)


def holm(ps: Sequence[float]) -> list[float]:
    """The p of several tests, adjusted for their number, in the given order.

    Source:
        Holm, A Simple Sequentially Rejective Multiple Test Procedure (1979).
    """
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def interval_of(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval by Student's t; NaN of a single value."""
    half = visible(len(values)) * statistics.stdev(values) if len(values) > 1 else math.nan
    return statistics.fmean(values), half


def spread(
    mean: float | None, deviation: float | None = None, interval: Sequence[float] | None = None
) -> str:
    """A number with its deviation or its interval, as text: ``0.948 ± 0.013``, ``0.95 (0.92 to 0.97)``.

    The deviation has two digits, and the mean as many places.
    """
    if mean is None:
        return ""
    if deviation and math.isfinite(deviation):
        places = max(0, 1 - math.floor(math.log10(deviation)))
        return f"{mean:.{places}f} ± {deviation:.{places}f}"
    if interval is not None:
        return f"{mean:.4g} ({interval[0]:.4g} to {interval[1]:.4g})"
    return f"{mean:.4g}" if deviation is None else f"{mean:.4g} ± {deviation:g}"


def compare_results(results: Iterable[Result]) -> list[dict[str, Any]]:
    """One row for each measurement and configuration, sorted by measurement, then runs without any.

    A row describes its measurement by ``sentence``, ``column``, ``role``, ``direction`` and
    ``chance``, from its first run.

    Finished runs that differ only in the seed share a row with the means and the standard
    deviations (n - 1) over the seeds, which are None for a single run; ``interval`` is then the
    interval over test samples. ``test`` has the members of `Paired`, and in ``against`` the run
    that the row is compared with: the first finished one of the same data set that has the metric.
    """
    groups = groups_of(list(results))
    names = dict.fromkeys(
        name for group in groups for each in group.runs for name in (*each.before, *each.after)
    )
    rows = [
        _row(name, group, groups)
        for name in names
        for group in groups
        if any(name in each.before or name in each.after for each in group.runs)
    ]
    empty = [group for group in groups if not (group.runs[0].before or group.runs[0].after)]
    return rows + [_row(None, group, groups) for group in empty]


def _row(metric: str | None, group: Group, groups: Sequence[Group]) -> dict[str, Any]:
    given = (each for result in group.runs for each in (result.after, result.before))
    first = next((each[metric] for each in given if metric and metric in each), None)
    about = ("sentence", "column", "role", "direction", "chance")
    row: dict[str, Any] = {
        "metric": metric,
        "run": name_of(group.runs),
        "n": len(group.runs),
        **{name: getattr(first, name, None) for name in about},
    }
    for time in ("before", "after"):
        n, mean, deviation, interval = group.estimate(metric or "", time)
        whole = n == len(group.runs)
        row[time] = mean if whole else None
        row[f"{time}_deviation"] = deviation if whole else None
    row["interval"] = [*interval] if interval and whole else None
    row["test"] = None
    against = next((g for g in groups if metric and _comparable(g, group, metric)), group)
    if metric and against is not group and not group.runs[0].state:
        test = paired(against.by_seed(metric), group.by_seed(metric))
        row["test"] = {"against": name_of(against.runs), **asdict(test)}
    row["state"] = group.runs[0].state
    row["runs"] = [str(each.path) for each in group.runs]
    return row


def _comparable(first: Group, group: Group, metric: str) -> bool:
    same = Record(first.record).is_on_data_of(group.record)
    return same and not first.runs[0].state and bool(first.by_seed(metric))


def judged_by(results: Iterable[Result]) -> dict[str, str]:
    """For each column the name of its main measurement, of how much the features hold.

    This is the column's first measurement with a direction, in the order of the evaluators. For
    columns other than the label, a measurement that was fitted within the measured samples comes
    before others. The label is first, then columns that conditions read, then other columns.
    """
    places: dict[str | None, int] = {"label": 0, "condition": 1}
    judges: dict[str, tuple[int, bool, str]] = {}
    for result in results:
        for each in (*result.after.values(), *result.before.values()):
            if each.column is not None and each.direction is not None:
                found = places.get(each.role, 2), each.within and each.column != "label", each.name
                # Another run may have a condition of this column.
                place, within, name = judges.get(each.column, found)
                name = each.name if found[1] and not within else name
                judges[each.column] = min(place, found[0]), within or found[1], name
    ordered = sorted(judges, key=lambda column: judges[column][0])
    return {column: judges[column][2] for column in ordered}


def conditioned(results: Iterable[Result]) -> list[str]:
    """The columns in `judged_by`, without the label, that a condition of a run reads."""
    results = [*results]
    read = {
        each.column
        for result in results
        for each in (*result.after.values(), *result.before.values())
        if each.role == "condition"
    }
    return [column for column in judged_by(results) if column in read]


def groups_of(results: Sequence[Result]) -> list[Group]:
    """Runs in order: finished runs that differ only in the seed in one group, each other run alone."""
    by_record: dict[Any, list[Result]] = {}
    for i, each in enumerate(results):
        alone = bool(each.state) or not each.record
        key = i if alone else json.dumps(Record(each.record).configuration, sort_keys=True)
        by_record.setdefault(key, []).append(each)
    groups: list[list[Result]] = []
    for group in by_record.values():
        by_folder: dict[Path, list[Result]] = {}
        for result in group:
            by_folder.setdefault(result.path.parent, []).append(result)
        # The same seed twice is no second sample: such runs differ in something that no record has.
        for some in [group] if _seeds_differ(group) else by_folder.values():
            groups += [some] if _seeds_differ(some) else [[each] for each in some]
    groups.sort(key=lambda group: results.index(group[0]))
    return [Group(*pair) for pair in zip(groups, run_labels(groups), strict=True)]


def _seeds_differ(group: Sequence[Result]) -> bool:
    seeds = [each.seed for each in group]
    return len(set(seeds)) == len(seeds)


def name_of(group: Iterable[Result]) -> str:
    """The path of a run, or the common beginning of several paths and a star: ``runs/fair-seed-*``."""
    names = [str(each.path) for each in group]
    if len(names) == 1:
        return names[0]
    begin = beginning_of(names)
    return f"{begin}*" if begin.strip("./") else ", ".join(names)


def beginning_of(names: Sequence[str]) -> str:
    """The common beginning of runs' names, without parts of a number: 10 and 11 share no seed 1."""
    begin = os.path.commonprefix([*names])  # noqa: RUF071 - of characters, not of folders
    return re.sub(r"(seed[-_,/ ]*)\d+$", r"\1", begin)


def run_labels(groups: Sequence[Sequence[Result]]) -> list[str]:
    """A short name for each configuration.

    It is the part of the folder's name that differs from all others or, if folders are numbers as
    in a sweep, the settings that differ.
    """
    names = [stem_of(Path(name_of(group)).name) for group in groups]
    if len({*names}) == len(names):
        words = [re.findall(r"[^_-]+[_-]*", name) for name in names]
        same = 0
        while len(names) > 1 and all(len(each) > same + 1 for each in words):
            if len({each[same] for each in words}) > 1:
                break
            same += 1
        short = ["".join(each[same:]) for each in words]
        if all(any(map(str.isalpha, name)) for name in short):
            return short
    labels = settings_of([group[0].record for group in groups])
    if len({*labels}) == len(labels):
        return labels
    return [", ".join(str(each.path) for each in group) for group in groups]


def settings_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each record the first settings that distinguish it, such as ``"kernel rbf, scale 0.1"``."""
    labels = [""] * len(records)
    for row in differing(records):
        parts = row["setting"].removesuffix(".use").split(".")
        key = ".".join(parts[-2:]) if parts[-1].isdigit() else parts[-1]
        for i, value in enumerate(row["values"]):
            if value is not None:
                labels[i] = f"{labels[i]}, {key} {value}".removeprefix(", ")
        if len({*labels}) == len(labels):
            break
    return labels


def stem_of(name: str) -> str:
    """The name of a configuration's folders without the seeds: ``fair`` of ``fair-seed-*``."""
    stem = name.removesuffix("*")
    return stem.removesuffix("-").removesuffix("-seed") or name if stem != name else name

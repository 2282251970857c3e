"""What results mean, in plain sentences: is it learning, what did conditioning do, which run is better."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ccl_plugins.runs.results import ALPHA, Paired, Result, paired, values_of, visible


@dataclass(frozen=True)
class Configuration:
    """Runs that differ in the seed alone.

    Args:
        label: A short name.
        results: What is known of each run.
        losses: The loss at the first and the last logged step, of each run that logged it.
    """

    label: str
    results: Sequence[Result]
    losses: Sequence[tuple[float, float]] = field(default=())

    @property
    def record(self) -> Mapping[str, Any]:
        """The record of its first run."""
        return self.results[0].record

    @property
    def objective(self) -> str:
        """The name of the objective."""
        return component(self.record.get("objective"))

    @property
    def conditions(self) -> dict[str, str]:
        """For each condition, by its name, the column that it reads, or else its component."""
        conditions = self.record.get("conditions")
        given = conditions if isinstance(conditions, Mapping) else {}
        return {
            name: str(each["name"])
            if isinstance(each, Mapping) and component(each) == "column" and "name" in each
            else component(each)
            for name, each in given.items()
        }

    def after(self, metric: str) -> dict[Any, float]:
        """A metric after training, by seed."""
        return values_of(self.results, metric)

    def before(self, metric: str) -> dict[Any, float]:
        """A metric before training, by seed."""
        return {each.seed: each.before[metric] for each in self.results if metric in each.before}


@dataclass(frozen=True)
class Answer:
    """A question and its answer.

    Args:
        question: The question.
        verdict: The answer in a few words.
        tone: Whether it is good news.
        sentences: The reasons.
    """

    question: str
    verdict: str
    tone: Literal["good", "unclear", "bad"]
    sentences: Sequence[str]


def component(recorded: Any) -> str:
    """The name of a component in a record: ``"objective:ccl-plugins/infonce"`` is ``infonce``."""
    use = recorded.get("use") if isinstance(recorded, Mapping) else recorded
    return str(use).rpartition("/")[2] if use else ""


def probed(metric: str) -> str:
    """The column that a metric of a probe tells about; empty for other metrics.

    ``"linear/top1"`` tells about the label, ``"linear-color/top1"`` and ``"color/r2"`` about the color.
    """
    probe, _, measure = metric.rpartition("/")
    if measure == "top1":
        return probe.partition("-")[2] or "label"
    return probe.partition("-")[2] or probe if measure == "r2" else ""


def metric_of(column: str, names: Iterable[str]) -> str:
    """The metric by which a column is judged, of the names of all; a linear probe's if there is one."""
    found = [name for name in names if probed(name) == column]
    linear = [name for name in found if name.startswith("linear") or name.endswith("/r2")]
    return next(iter([*linear, *found]), "")


def meaning(metric: str) -> str:
    """What a metric says, for somebody who has not seen it; empty if it is not known here."""
    column, (probe, _, measure) = probed(metric), metric.rpartition("/")
    how = {
        "linear": "by a linear probe",
        "knn": "by the nearest training samples",
    }.get(probe.partition("-")[0], "by a probe")
    if measure == "top1":
        return f"the fraction of test samples whose {column} is named right {how}; higher: more is read"
    if measure == "r2":
        return f"the share of the variance of {column} that a linear regression explains; 1: all, 0: none"
    if measure in ("mse", "mse255"):
        return f"the mean squared error of that regression of {probe}; higher: less is read"
    return ""


def answers(configurations: Sequence[Configuration]) -> list[Answer]:
    """The three questions about runs on one data set, with their answers."""
    named = dict.fromkeys(
        name for c in configurations for each in c.results for name in (*each.after, *each.before)
    )
    return [
        _learning(configurations, [*named]),
        _conditioning(configurations, [*named]),
        _better(configurations, [*named]),
    ]


def _learning(configurations: Sequence[Configuration], names: Sequence[str]) -> Answer:
    question, metric = "Is it learning?", metric_of("label", names)
    rose, sentences = {}, []
    for each in configurations:
        words = [_loss(each)] if each.losses else []
        before, after = each.before(metric), each.after(metric)
        if after and before:
            change = paired(before, after)
            words.append(
                f"The label is read from its features at {_mean(after)}, against {_mean(before)} before"
                f" training: {_direction(change, each, metric)}."
            )
            rose[each.label] = _is_clear(change, each, metric) and (change.difference or 0) > 0
            if not rose[each.label]:
                words += _instead(each, names)
        elif after:
            words.append(f"The label is read from its features at {_mean(after)}.")
        if words:
            sentences.append(f"{each.label}: {' '.join(words)}")
    if not rose:
        return Answer(
            question,
            "Not measured",
            "unclear",
            [*sentences, "No probe of the label was run before and after training."],
        )
    yes, no = ([label for label, is_up in rose.items() if is_up is up] for up in (True, False))
    if not no:
        return Answer(question, "Yes" if len(yes) == 1 else "Yes, all", "good", sentences)
    if not yes:
        return Answer(question, "Not the label", "bad", sentences)
    verdict = f"{_listed(yes)}: yes; {_listed(no)}: not the label"
    return Answer(question, verdict, "unclear", sentences)


def _loss(each: Configuration) -> str:
    first, last = (statistics.fmean(pair[i] for pair in each.losses) for i in (0, 1))
    if last < first:
        return f"The loss fell from {first:.4g} to {last:.4g}."
    return f"The loss did not fall: {first:.4g} at first, {last:.4g} at the end."


def _instead(each: Configuration, names: Sequence[str]) -> list[str]:
    """What the features hold, where they do not hold the label."""
    columns = dict.fromkeys(probed(name) for name in names)
    found = []
    for column in columns:
        metric = metric_of(column, names)
        after = each.after(metric)
        if column not in ("", "label") and after and statistics.fmean(after.values()) > 0.5:
            found.append(f"Its features hold {column} instead: {_read_at(metric, after)}.")
    return found[:1]


def _conditioning(configurations: Sequence[Configuration], names: Sequence[str]) -> Answer:
    question = "What did conditioning do?"
    conditional = [each for each in configurations if each.conditions]
    plain = [each for each in configurations if not each.conditions]
    if not conditional:
        return Answer(question, "No run is conditioned", "unclear", [])
    sentences, verdicts = [], []
    for each in conditional:
        other = plain[0] if plain else None
        against = other.label if other else "the same network before training"
        for column in dict.fromkeys([*each.conditions.values(), "label"]):
            metric = metric_of(column, names)
            after = each.after(metric)
            reference = other.after(metric) if other else each.before(metric)
            if not metric or not after or not reference:
                if column != "label":
                    sentences.append(
                        f"{each.label} is conditioned on {column}, and no evaluator reads {column} from"
                        " the features: add one to see what is left of it."
                    )
                continue
            change = paired(reference, after)
            clear = _is_clear(change, each, metric)
            how = _more_or_less(change) if clear else "about as much"
            begin = f"{each.label}, conditioned on {column}, holds" if column != "label" else "It holds"
            sentences.append(
                f"{begin} {how} of {_the(column)} {'as' if not clear else 'than'} {against}:"
                f" {_read_at(metric, after)}, against {_mean(reference)}{_luck(change)}."
            )
            if column != "label" or column in each.conditions.values():
                verdicts.append(f"{each.label}: {how} of {_the(column)}")
    if not verdicts:
        return Answer(question, "Not measured", "unclear", sentences)
    clear = not any("about" in verdict for verdict in verdicts)
    return Answer(question, "; ".join(verdicts[:3]), "good" if clear else "unclear", sentences)


def _better(configurations: Sequence[Configuration], names: Sequence[str]) -> Answer:
    question, metric = "Which run is better, and is that luck?", metric_of("label", names)
    found = [each for each in configurations if each.after(metric)]
    if len(found) < 2:
        return Answer(question, "There is nothing to compare", "unclear", [])
    found.sort(key=lambda each: -statistics.fmean(each.after(metric).values()))
    best, *others = found
    sentences, lucky = [], False
    for other in others[:4]:
        change = paired(other.after(metric), best.after(metric))
        corrected = None if change.p is None else min(1.0, change.p * len(others))
        lucky |= corrected is None or corrected >= ALPHA
        sentences.append(_against(best, other, metric, change, corrected, len(others)))
    if len(others) > 4:
        sentences.append(f"{len(others) - 4} more are below these; the table has them.")
    if len(found) > 2:
        sentences.append(
            "The best of many is in part the luckiest: choose on a validation part and report on the test"
            " split once."
        )
    for column in dict.fromkeys(probed(name) for name in names):
        leak = metric_of(column, names)
        if column in ("", "label") or not all(each.after(leak) for each in found):
            continue
        least = min(found, key=lambda each: statistics.fmean(each.after(leak).values()))
        sentences.append(
            f"{least.label} holds the least of {column} ({_read_at(leak, least.after(leak))})"
            + (": it is ahead in both, if that is sensitive." if least is best else ".")
        )
    verdict = f"{best.label}, for the label" + (": that may be luck" if lucky else ": hardly luck")
    return Answer(question, verdict, "unclear" if lucky else "good", sentences)


def _against(
    best: Configuration,
    other: Configuration,
    metric: str,
    change: Paired,
    p: float | None,
    tests: int,
) -> str:
    a, b = best.after(metric), other.after(metric)
    begin = f"{best.label} reads the label at {_mean(a)}, {other.label} at {_mean(b)}"
    if p is None:
        why = (
            "with one seed each, nobody can say whether another seed would turn it round"
            if change.n < 2
            else change.note
        )
        return f"{begin}: {why}."
    corrected = f", corrected for {tests} comparisons" if tests > 1 else ""
    seeds = f"{change.n} seeds that both have"
    if p < ALPHA:
        return (
            f"{begin}. Over the {seeds}, a difference like this would come by luck"
            f" {_often(p)} (paired t-test, p = {p:.2g}{corrected})."
        )
    return (
        f"{begin}. Over the {seeds} that may be luck (paired t-test, p = {p:.2g}{corrected}): with"
        f" {change.n} seeds, a mean difference has to be {visible(change.n):.1f} times as large as its"
        " spread to tell."
    )


def _is_clear(change: Paired, each: Configuration, metric: str) -> bool:
    """Whether a change is hardly luck, as far as its seeds, or the test samples of one run, can say."""
    if change.difference is None:
        return False
    if change.p is not None:
        return change.p < ALPHA
    interval = each.results[0].intervals.get(metric)
    if change.n == 1 and interval is not None and len(each.results) == 1:
        (value,) = each.after(metric).values()
        return not interval[0] <= value - change.difference <= interval[1]
    # Of one run without an interval, two hundredths of a fraction or of an R² are beyond rounding.
    return abs(change.difference) > 0.02


def _direction(change: Paired, each: Configuration, metric: str) -> str:
    if not _is_clear(change, each, metric):
        return "no clear change" + _luck(change)
    return ("it rose" if (change.difference or 0) > 0 else "it fell") + _luck(change)


def _more_or_less(change: Paired) -> str:
    return "more" if (change.difference or 0) > 0 else "less"


def _luck(change: Paired) -> str:
    if change.p is not None:
        return f" ({change.n} seeds, p = {change.p:.2g})" if change.p >= 0.001 else (
            f" ({change.n} seeds, p < 0.001)"
        )
    return " (one seed)" if change.n == 1 else ""


def _often(p: float) -> str:
    return "less than once in 1000 times" if p < 0.001 else f"about once in {round(1 / p)} times"


def _read_at(metric: str, values: Mapping[Any, float]) -> str:
    column, measure = probed(metric), metric.rpartition("/")[2]
    if measure == "r2":
        return f"a linear regression explains {_mean(values)} of its variance"
    return f"a probe names {'it' if column != 'label' else 'the label'} right for {_mean(values)} of the test samples"


def _the(column: str) -> str:
    return "the label" if column == "label" else column


def _mean(values: Mapping[Any, float]) -> str:
    mean = statistics.fmean(values.values())
    if len(values) == 1:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {statistics.stdev(values.values()):.3f}"


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels)



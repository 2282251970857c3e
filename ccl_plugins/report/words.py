"""What results mean, in plain sentences: is it learning, what did conditioning do, which run is better."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ccl_plugins.experiments.results import ALPHA, Paired, Result, paired, values_of, visible

SMALL = 0.02
"""A change of an accuracy or an R² that is not worth a word."""


@dataclass(frozen=True)
class Configuration:
    """Runs that differ in the seed alone.

    Args:
        label: A short name.
        results: What is known of each run.
        losses: The loss at the first and the last logged step, of each run that logged it.
        monitored: For each run, what was read while it trained, at first and at last, by the scalar's name.
    """

    label: str
    results: Sequence[Result]
    losses: Sequence[tuple[float, float]] = ()
    monitored: Sequence[Mapping[str, tuple[float, float]]] = ()

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
        sentences: The reasons: what each is about, or nothing, and the sentence.
    """

    question: str
    verdict: str
    tone: Literal["good", "unclear", "bad"]
    sentences: Sequence[tuple[str, str]]


def component(recorded: Any) -> str:
    """The name of a component in a record: ``"objective:ccl-plugins/infonce"`` is ``infonce``."""
    use = recorded.get("use") if isinstance(recorded, Mapping) else recorded
    return str(use).rpartition("/")[2] if use else ""


def probed(metric: str) -> str:
    """The column that a metric of a probe tells about; empty for other metrics.

    ``"linear/top1"`` and ``"few_shot-0.01/top1"`` tell about the label, ``"linear-color/top1"`` and
    ``"color/r2"`` about the color.
    """
    probe, _, measure = metric.rpartition("/")
    column = re.sub(r"^[\d.]+(-|$)", "", probe.partition("-")[2])  # a number is a parameter
    return (column or "label") if measure == "top1" else probe if measure == "r2" else ""


def metric_of(column: str, names: Iterable[str]) -> str:
    """The metric by which a column is judged, of the names of all; a linear probe's if there is one."""
    found = [name for name in names if probed(name) == column]
    linear = [name for name in found if name.startswith("linear") or name.endswith("/r2")]
    return next(iter([*linear, *found]), "")


MEANINGS = {
    "top1": "the fraction of test samples whose {of} is named right; higher: more is read",
    "top5": "the same, where being among the five most likely is enough",
    "balanced": "the same, each class of {of} with the same weight",
    "r2": "the share of the variance of {of} that a linear regression explains; 1: all, 0: none",
    "mse": "the mean squared error of a linear regression of {of}; higher: less is read",
    "mse255": "the same, for colors from 0 to 255",
    "dcor": "distance correlation of the features and {of}; 1: the same, beside dcor_chance: independent",
    "dcor_chance": "distance correlation of values that are independent",
    "hsic": "dependence of the features and {of}, beside hsic_chance",
    "hsic_chance": "the same of values that are independent",
    "demographic_parity": "how far predictions differ between groups of {of}; 0 is best",
    "equalized_odds": "how far the errors of a classifier differ between groups of {of}; 0 is best",
    "equal_opportunity": "how far its hits differ between groups of {of}; 0 is best",
    "worst_group": "the accuracy in the group of {of} where it is lowest",
    "worst_subgroup": "the accuracy in the group of {of} and class where it is lowest",
    "map": "mean average precision; 1: all that belongs is ranked first",
    "recall": "the fraction of samples with one of their class among the most similar others",
    "image_to_text_recall": "the fraction of images whose caption is among the most similar ones",
    "text_to_image_recall": "the fraction of captions with their image among the most similar ones",
    "image_to_text_median_rank": "the place of an image's caption among all, half of the time; 1 is best",
    "text_to_image_median_rank": "the place of a caption's image among all, half of the time; 1 is best",
    "accuracy": "the fraction of samples in the right one of the clusters",
    "nmi": "what clusters and classes say of each other; 1: all, 0: nothing",
    "ari": "how well clusters and classes agree; 1: fully, 0: as by chance",
}
"""What a measure says, to somebody who has not seen it."""


def meaning(metric: str) -> str:
    """What a metric says, for somebody who has not seen it; empty if it is not known here."""
    probe, _, measure = metric.rpartition("/")
    of = probed(metric) or probe.partition("-")[2] or probe
    measure = measure.partition("_at_")[0]  # recall_at_5
    return MEANINGS.get(measure, "").format(of="the label" if of == "label" else of)


def answers(configurations: Sequence[Configuration], chance: float | None = None) -> list[Answer]:
    """The three questions about runs on one data set, with their answers.

    Args:
        configurations: Runs on one data set.
        chance: The accuracy of naming the most frequent label.
    """
    named = dict.fromkeys(
        name for c in configurations for each in c.results for name in (*each.after, *each.before)
    )
    return [
        _learning(configurations, [*named], chance),
        _conditioning(configurations, [*named]),
        _better(configurations, [*named]),
    ]


def _learning(
    configurations: Sequence[Configuration], names: Sequence[str], chance: float | None
) -> Answer:
    question, metric = "Is it learning?", metric_of("label", names)
    found: dict[str, list[str]] = {"yes": [], "perhaps": [], "not the label": []}
    sentences = []
    for each in configurations:
        words = [_loss(each)] if each.losses else []
        before, after = each.before(metric), each.after(metric)
        if after and before:
            change = _change(before, after, each, metric, is_before=True)
            words.append(
                f"A probe reads the label from its features with accuracy {_mean(after)}; before training"
                f" it was {_mean(before)}: {_direction(change)}."
            )
            answer = {"up": "yes", "perhaps up": "perhaps"}.get(change.way, "not the label")
            found[answer].append(each.label)
            if answer == "not the label":
                words += _instead(each, names)
        elif after:
            words.append(f"A probe reads the label from its features with accuracy {_mean(after)}.")
        if words:
            sentences.append((each.label, " ".join(words)))
    if chance is not None and any(each.after(metric) for each in configurations):
        guess = f"Naming the most frequent label every time has accuracy {chance:.2g}."
        sentences.append(("", guess))
    answers = {answer: labels for answer, labels in found.items() if labels}
    if not answers:
        sentences.append(("", "No probe of the label was run before and after training."))
        return Answer(question, "Not measured", "unclear", sentences)
    if [*answers] == ["yes"]:
        return Answer(question, "Yes, the label", "good", sentences)
    if [*answers] == ["not the label"]:
        return Answer(question, "Not the label", "bad", sentences)
    verdict = "; ".join(f"{_listed(labels)}: {answer}" for answer, labels in answers.items())
    return Answer(question, verdict, "unclear", sentences)


def _loss(each: Configuration) -> str:
    first, last = (statistics.fmean(pair[i] for pair in each.losses) for i in (0, 1))
    if last < first:
        return f"The loss fell from {first:.3g} to {last:.3g}."
    return f"The loss did not fall: {first:.3g} at first, {last:.3g} at the end."


def _instead(each: Configuration, names: Sequence[str]) -> list[str]:
    """What the features hold, where they do not hold the label."""
    found = []
    for column in dict.fromkeys(probed(name) for name in names):
        metric = metric_of(column, names)
        after = each.after(metric)
        if column not in ("", "label") and after and statistics.fmean(after.values()) > 0.5:
            found.append(f"What its features hold is {column}: {_read_at(metric, after)}.")
    return found[:1]


def _conditioning(configurations: Sequence[Configuration], names: Sequence[str]) -> Answer:
    question = "What did conditioning do?"
    conditional = [each for each in configurations if each.conditions]
    plain = next((each for each in configurations if not each.conditions), None)
    if not conditional:
        return Answer(question, "No run is conditioned", "unclear", [])
    against = plain.label if plain else "the network before training"
    sentences, verdicts, clear = [], [], True
    change: _Change | None
    for each in conditional:
        words = []
        names_of = {column: name for name, column in each.conditions.items()}
        for column in (*names_of, *(["label"] if "label" not in names_of else [])):
            metric = metric_of(column, names)
            after = each.after(metric)
            reference = plain.after(metric) if plain else each.before(metric)
            if column in names_of:
                words.append(f"It is conditioned on {_the(column)}.")
            if after and reference:
                change = _change(reference, after, each, metric)
                words.append(
                    f"It holds {change.amount} of {_the(column)} {change.than} {against}:"
                    f" {_read_at(metric, after)}, against {_mean(reference)}{change.luck}."
                )
            elif column in names_of:
                change, sentence = _watched(each, names_of[column], column)
                words.append(sentence)
            if column in names_of and change is not None:
                verdicts.append(f"{each.label} holds {change.amount} of {_the(column)}")
                clear &= change.way in ("up", "down")
        sentences.append((each.label, " ".join(words)))
    if not verdicts:
        return Answer(question, "Not measured", "unclear", sentences)
    more = f"; {len(verdicts) - 2} more" if len(verdicts) > 3 else ""
    shown = verdicts if len(verdicts) <= 3 else verdicts[:2]
    verdict = "; ".join(shown) + more + ("" if clear else ": may be luck")
    return Answer(question, verdict, "good" if clear else "unclear", sentences)


def _watched(each: Configuration, name: str, column: str) -> tuple[_Change | None, str]:
    """What an online probe read of a condition that no evaluator reads."""
    for probe in ("linear", "r2"):
        scalar = f"monitor/{name}/{probe}"
        seen = {i: run[scalar] for i, run in enumerate(each.monitored) if scalar in run}
        if seen:
            first, last = ({i: pair[k] for i, pair in seen.items()} for k in (0, 1))
            change = _change(first, last, each, scalar)
            read = {
                "linear": "an online probe read it with accuracy",
                "r2": "an online regression explained of its variance",
            }[probe]
            ends = f"{_mean(first)} at first and {_mean(last)} at the end"
            return change, f"While it trained, {read} {ends}{change.luck}."
    return None, (
        f"No evaluator reads {column} from the features: with one, this page would say what is left of it."
    )


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
        words = _against(best, other, metric, change, corrected, len(others))
        sentences.append((f"{best.label} and {other.label}", words))
    if len(others) > 4:
        sentences.append(("", f"{len(others) - 4} more are below these; the table has them."))
    if len(found) > 2:
        advice = "choose on a validation part, and report the test split once."
        sentences.append(("", f"The best of many is in part the luckiest: {advice}"))
    for column in dict.fromkeys(probed(name) for name in names):
        leak = metric_of(column, names)
        if column in ("", "label") or not all(each.after(leak) for each in found):
            continue
        least = min(found, key=lambda each: statistics.fmean(each.after(leak).values()))
        ahead = ", so it is ahead in both" if least is best else ""
        words = f"holds the least of {column}: {_read_at(leak, least.after(leak))}."
        sentences.append((least.label, f"{words} If {column} is sensitive, less is better{ahead}."))
    verdict = f"{best.label} reads the label best: {'that may be luck' if lucky else 'hardly luck'}"
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
    begin = f"read the label with accuracy {_mean(a)} and {_mean(b)}."
    if p is None:
        if change.n < 2:
            common = f"{begin} With {'one seed' if change.n else 'no seed'} in common"
            return f"{common}, nobody can say whether another seed would turn it round."
        return f"{begin} There is no test: {change.note}."
    corrected = f", corrected for {tests} comparisons" if tests > 1 else ""
    test = f"paired t-test over {change.n} seeds, {_p(p)}{corrected}"
    if p < ALPHA:
        return f"{begin} A difference like this would come by luck {_often(p)} ({test})."
    return (
        f"{begin} That may be luck ({test}): with {change.n} seeds, a mean difference has to be"
        f" {visible(change.n):.1f} times as large as its spread to tell."
    )


@dataclass(frozen=True)
class _Change:
    """A change of a metric in words.

    Args:
        way: Where it went, as far as its seeds, or the test samples of one run, can say.
        amount: How much is read, compared with before: "more", "less" or "about as much".
        luck: n and p in brackets.
    """

    way: Literal["up", "down", "perhaps up", "perhaps down", "same"]
    amount: str
    luck: str

    @property
    def than(self) -> str:
        return "as" if self.amount == "about as much" else "than"


def _change(
    reference: Mapping[Any, float],
    values: Mapping[Any, float],
    each: Configuration,
    metric: str,
    *,
    is_before: bool = False,
) -> _Change:
    """How the values of a configuration differ from others, or from its own before training."""
    test = paired(reference, values)
    by = statistics.fmean(values.values()) - statistics.fmean(reference.values())
    amount = "about as much" if abs(by) < SMALL else "more" if by > 0 else "less"
    alone = len(each.results) == 1
    if test.p is not None:
        luck, clear = f" ({test.n} seeds, {_p(test.p)})", test.p < ALPHA
    else:
        luck = " (one seed)" if alone and test.n == 1 else f" ({test.note})"
        # Of one run without an interval, what is larger than SMALL is taken as it is.
        clear = alone and test.n == 1 and _is_beyond(reference, each, metric) is not False
        clear |= test.n > 2 and test.deviation == 0
    if is_before and not clear and _is_beyond(reference, each, metric):
        luck, clear = f"{luck[:-1]}, in each by more than its test samples explain)", True
    if amount == "about as much":
        return _Change("same", amount, luck)
    if clear:
        return _Change("up" if by > 0 else "down", amount, luck)
    return _Change("perhaps up" if by > 0 else "perhaps down", amount, f"{luck}, which may be luck")


def _is_beyond(reference: Mapping[Any, float], each: Configuration, metric: str) -> bool | None:
    """Whether every run's reference lies beyond its interval over test samples, on one side.

    None if a run has no interval or no reference.
    """
    sides = set()
    for result in each.results:
        interval, other = result.intervals.get(metric), reference.get(result.seed)
        if interval is None or other is None:
            return None
        sides.add((other < interval[0]) - (other > interval[1]))
    return sides in ({1}, {-1})


def _direction(change: _Change) -> str:
    words = {"up": "it rose", "down": "it fell", "same": "no change to speak of"}
    found = words.get(change.way) or ("it rose" if change.way == "perhaps up" else "it fell")
    return found + change.luck


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _often(p: float) -> str:
    return "less than once in 1000 times" if p < 0.001 else f"about once in {round(1 / p)} times"


def _read_at(metric: str, values: Mapping[Any, float]) -> str:
    if metric.endswith("/r2"):
        return f"a linear regression explains {_mean(values)} of its variance"
    return f"a probe reads it with accuracy {_mean(values)}"


def _the(column: str) -> str:
    return "the label" if column == "label" else column


def _mean(values: Mapping[Any, float]) -> str:
    numbers = list(values.values())
    mean = statistics.fmean(numbers)
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    # Three places are enough for a sentence; the table has more.
    return f"{mean:.3f} ± {deviation:.3f}" if deviation >= 0.0005 else f"{mean:.3f}"


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= 3 else f"{len(labels)} of them"

"""The meaning of results, in sentences: does a run learn, what did conditioning do, which run is better."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ccl_plugins.evaluators.columns import in_words
from ccl_plugins.experiments.results import (
    ALPHA,
    Group,
    Paired,
    judged_by,
    paired,
    visible,
)
from ccl_plugins.protocols import Measurement

SMALL = 0.02
"""The largest change that is not mentioned: of a share, or relative for numbers above 1."""


@dataclass(frozen=True)
class ReportedGroup(Group):
    """A group of runs in the report.

    Args:
        reads: The column that each of its conditions reads, by the condition's name; None: no
            column.
        losses: The loss at the first and the last logged step, of each run that logged it.
    """

    reads: Mapping[str, str | None] = field(default_factory=dict)
    losses: Sequence[tuple[float, float]] = ()

    @property
    def conditions(self) -> dict[str, str]:
        """The name of each condition: its column, its column and component, or its component."""
        given = self.record.get("conditions") or {}
        return {name: _called(given.get(name), column) for name, column in self.reads.items()}


@dataclass(frozen=True)
class Answer:
    """A question and its answer.

    Args:
        question: The question.
        verdict: The answer in a few words.
        tone: Whether it is good news.
        sentences: The reasons: the subject of each, or empty, and the sentence.
    """

    question: str
    verdict: str
    tone: Literal["good", "unclear", "bad"]
    sentences: Sequence[tuple[str, str]]


def component(recorded: Any) -> str:
    """The name of a component in a record: ``"objective:ccl-plugins/infonce"`` is ``infonce``."""
    use = recorded.get("use") if isinstance(recorded, Mapping) else recorded
    return str(use).rpartition("/")[2] if use else ""


def _called(recorded: Any, column: str | None) -> str:
    """``angle``, or ``angle, shuffled`` for a component that changes the column."""
    own = component(recorded)
    options = recorded.values() if isinstance(recorded, Mapping) else ()
    if column is None or not own:
        return column or own
    return column if own == column or column in options else f"{column}, {own}"


def explained(sentence: str, chance: float | None) -> str:
    """The sentence of a measurement, with its chance level."""
    nothing = "" if chance is None else f"features that say nothing would have {chance:.2g}"
    return "; ".join(filter(None, (sentence, nothing)))


def answers(configurations: Sequence[ReportedGroup]) -> list[Answer]:
    """The three questions about runs on one data set, with their answers."""
    results = [result for each in configurations for result in each.runs]
    measured = {
        name: measurement
        for result in results
        for name, measurement in {**result.before, **result.after}.items()
    }
    judges = {column: measured[name] for column, name in judged_by(results).items()}
    return [
        _learning(configurations, judges),
        _conditioning(configurations, judges),
        _better(configurations, judges),
    ]


def _learning(configurations: Sequence[ReportedGroup], judges: Mapping[str, Measurement]) -> Answer:
    question, judge = "Is it learning?", judges.get("label")
    by_answer: dict[str, list[str]] = {"yes": [], "perhaps": [], "not the label": []}
    sentences = []
    for group in configurations:
        words = [_loss(group)] if group.losses else []
        after = group.by_seed(judge.name) if judge else {}
        before = group.by_seed(judge.name, "before") if judge else {}
        if judge and after and before:
            change = _change(before, after, group, judge, is_before=True)
            words.append(
                f"{_read_at(judge, after)}; before training it was {_mean(before)}: {change.moved}."
            )
            answer = {"up": "yes", "perhaps up": "perhaps"}.get(change.way, "not the label")
            by_answer[answer].append(group.name)
            if answer == "not the label":
                words += [*_instead(group, judges)][:1]
        elif judge and after:
            words.append(f"{_read_at(judge, after)}.")
        if words:
            sentences.append((group.name, " ".join(words)))
    if judge and (text := explained(judge.sentence, judge.chance)):
        sentences.append((judge.name, f"is {text}."))
    given = {answer: labels for answer, labels in by_answer.items() if labels}
    if not given:
        sentences.append(("", "No evaluator read the label before and after training."))
        return Answer(question, "Not measured", "unclear", sentences)
    if [*given] == ["yes"]:
        return Answer(question, "Yes, the label", "good", sentences)
    if [*given] == ["not the label"]:
        return Answer(question, "Not the label", "bad", sentences)
    shown = {
        a: ", ".join(who) if len(who) <= 3 else f"{len(who)} of them" for a, who in given.items()
    }
    verdict = "; ".join(f"{labels}: {answer}" for answer, labels in shown.items())
    return Answer(question, verdict, "unclear", sentences)


def _loss(each: ReportedGroup) -> str:
    first, last = (statistics.fmean(pair[i] for pair in each.losses) for i in (0, 1))
    if last < first:
        return f"The loss fell from {first:.3g} to {last:.3g}."
    return f"The loss did not fall: {first:.3g} at first, {last:.3g} at the end."


def _instead(each: ReportedGroup, judges: Mapping[str, Measurement]) -> Iterator[str]:
    """The columns that the features hold, if they do not hold the label."""
    for column, judge in judges.items():
        after, chance = each.by_seed(judge.name), judge.chance
        if column == "label" or judge.direction != "higher" or not after or chance is None:
            continue
        mean = statistics.fmean(after.values())
        if (1 + chance) / 2 < mean <= 1:  # a share, and nearer to 1 than to chance
            nothing = f"features that say nothing would have {chance:.2g}"
            yield f"What its features do hold is {column}: {_read_at(judge, after)}, and {nothing}."


def _conditioning(
    configurations: Sequence[ReportedGroup], judges: Mapping[str, Measurement]
) -> Answer:
    question = "What did conditioning do?"
    conditional = [each for each in configurations if each.reads]
    plain = next((each for each in configurations if not each.reads), None)
    if not conditional:
        return Answer(question, "No run is conditioned", "unclear", [])
    sentences, verdicts, clear = [], [], True
    for group in conditional:
        words = []
        read = {column or name: group.conditions[name] for name, column in group.reads.items()}
        for column, shown in {**read, "label": "label"}.items():
            judge = judges.get(column)
            after = group.by_seed(judge.name) if judge else {}
            if column in read:
                words.append(f"It is conditioned on {in_words(shown)}.")
                shown = column if column in group.reads.values() else shown
                if not after:
                    words.append(
                        f"No evaluator has a number for {in_words(shown)} in the features: with one,"
                        " such as held, this page would say how much of it they hold."
                    )
            others = plain.by_seed(judge.name) if plain and judge else {}
            against = plain.name if plain and others else "the network before training"
            reference = others or (group.by_seed(judge.name, "before") if judge else {})
            if judge and after and reference:
                change = _change(reference, after, group, judge)
                words.append(
                    f"It holds {change.amount} of {in_words(shown)} {change.than} {against}:"
                    f" {_read_at(judge, after)}, against {_mean(reference)}{change.luck}."
                )
                if column in read:
                    verdicts.append(f"{group.name} holds {change.amount} of {in_words(shown)}")
                    clear &= change.way in ("up", "down")
        sentences.append((group.name, " ".join(words)))
    if not verdicts:
        return Answer(question, "Not measured", "unclear", sentences)
    for column in dict.fromkeys(c or name for e in conditional for name, c in e.reads.items()):
        if column in judges and (text := explained(judges[column].sentence, judges[column].chance)):
            sentences.append((judges[column].name, f"is {text}."))
    more = f"; {len(verdicts) - 2} more" if len(verdicts) > 3 else ""
    few = verdicts if len(verdicts) <= 3 else verdicts[:2]
    verdict = "; ".join(few) + more + ("" if clear else ": may be luck")
    return Answer(question, verdict, "good" if clear else "unclear", sentences)


def _better(configurations: Sequence[ReportedGroup], judges: Mapping[str, Measurement]) -> Answer:
    question, judge = "Which run is better, and is that luck?", judges.get("label")
    measured = [each for each in configurations if judge and each.by_seed(judge.name)]
    if len(measured) < 2 or judge is None:
        return Answer(question, "There is nothing to compare", "unclear", [])
    measured.sort(key=lambda each: -_held(each, judge))
    best, *others = measured
    sentences, lucky = [], False
    for other in others[:4]:
        change = paired(other.by_seed(judge.name), best.by_seed(judge.name))
        corrected = None if change.p is None else min(1.0, change.p * len(others))
        lucky |= not _is_clear(change, len(others))
        words = _against(best, other, judge, change, corrected, len(others))
        sentences.append((f"{best.name} and {other.name}", words))
    if len(others) > 4:
        sentences.append(("", f"{len(others) - 4} more are below these; the table has them."))
    if len(measured) > 2:
        advice = "choose on a validation part, and report the test split once."
        sentences.append(("", f"The best of many is in part the luckiest: {advice}"))
    for column, leak in judges.items():
        if column == "label" or not all(each.by_seed(leak.name) for each in measured):
            continue
        least = min(measured, key=lambda each: _held(each, leak))
        if len({_held(each, leak) for each in measured}) == 1:
            same = _read_at(leak, least.by_seed(leak.name))
            sentences.append(("", f"All hold equally much of {column}, which may be luck: {same}."))
            continue
        tests = [
            paired(e.by_seed(leak.name), least.by_seed(leak.name))
            for e in measured
            if e is not least
        ]
        doubt = not all(_is_clear(each, len(tests)) for each in tests)
        ahead = ", so it is ahead in both" if least is best and not (doubt or lucky) else ""
        luck = f" ({_of_all(tests)}{', which may be luck' if doubt else ''})"
        words = f"holds the least of {column}: {_read_at(leak, least.by_seed(leak.name))}{luck}."
        sentences.append((least.name, f"{words} If {column} is sensitive, less is better{ahead}."))
    verdict = (
        f"{best.name} holds most of the label: {'that may be luck' if lucky else 'hardly luck'}"
    )
    return Answer(question, verdict, "unclear" if lucky else "good", sentences)


def _of_all(tests: Sequence[Paired]) -> str:
    """The largest p of several tests, corrected for their number, or the reason why there is none."""
    if any(each.p is None for each in tests):
        return next(each.note for each in tests if each.p is None)
    p = min(1.0, max(each.p or 0.0 for each in tests) * len(tests))
    return _p(p) + (f" at most, corrected for {len(tests)} comparisons" if len(tests) > 1 else "")


def _is_clear(test: Paired, tests: int) -> bool:
    """Whether a difference, one of several that are tested, is hardly chance."""
    if test.p is None:
        return test.n > 2 and test.deviation == 0 and bool(test.difference)
    return test.p * tests < ALPHA


def _held(each: Group, judge: Measurement) -> float:
    """A number that grows with the amount that the features hold of the column."""
    mean = statistics.fmean(each.by_seed(judge.name).values())
    return -mean if judge.direction == "lower" else mean


def _against(
    best: ReportedGroup,
    other: ReportedGroup,
    judge: Measurement,
    change: Paired,
    p: float | None,
    tests: int,
) -> str:
    a, b = best.by_seed(judge.name), other.by_seed(judge.name)
    begin = f"have {judge.name} {_mean(a)} and {_mean(b)}."
    if p is None:
        if change.n < 2:
            common = f"{begin} With {'one seed' if change.n else 'no seed'} in common"
            return f"{common}, it is unknown whether another seed would reverse the order."
        return f"{begin} There is no test: {change.note}."
    corrected = f", corrected for {tests} comparisons" if tests > 1 else ""
    test = f"paired t-test over {change.n} seeds, {_p(p)}{corrected}"
    if p < ALPHA:
        often = "less than once in 1000" if p < 0.001 else f"about once in {round(1 / p)}"
        return f"{begin} A difference like this would come by luck {often} times ({test})."
    return (
        f"{begin} That may be luck ({test}): with {change.n} seeds, a mean difference must be"
        f" {visible(change.n, tests):.1f} times as large as its spread to rule luck out."
    )


@dataclass(frozen=True)
class _Change:
    """A change of a measurement in words.

    Args:
        way: The direction of the change, as far as seeds, or the test samples of one run, can show.
        amount: The amount that the features hold, compared with before: "more", "less" or "about as
            much".
        rose: Whether the number rose.
        luck: n and p in brackets.
    """

    way: Literal["up", "down", "perhaps up", "perhaps down", "same"]
    amount: str
    rose: bool
    luck: str

    @property
    def than(self) -> str:
        return "as" if self.amount == "about as much" else "than"

    @property
    def moved(self) -> str:
        if self.way == "same":
            return f"no change to speak of{self.luck}"
        return f"{'it rose' if self.rose else 'it fell'}{self.luck}"


def _change(
    reference: Mapping[Any, float],
    values: Mapping[Any, float],
    each: Group,
    judge: Measurement,
    *,
    is_before: bool = False,
) -> _Change:
    """How the values of a configuration differ from others, or from its own before training."""
    test = paired(reference, values)
    means = [statistics.fmean(some.values()) for some in (reference, values)]
    by = means[1] - means[0]
    more = (by > 0) is (judge.direction != "lower")
    alone = len(each.runs) == 1
    if test.p is not None:
        luck, clear = f" ({test.n} seeds, {_p(test.p)})", test.p < ALPHA
    else:
        luck = " (one seed)" if alone and test.n == 1 else f" ({test.note})"
        # Of one run without an interval, what is larger than SMALL is taken as it is.
        clear = alone and test.n == 1 and _is_beyond(reference, each, judge) is not False
        clear |= test.n > 2 and test.deviation == 0
    if is_before and not clear and _is_beyond(reference, each, judge):
        luck, clear = f"{luck[:-1]}, in each by more than its test samples explain)", True
    if abs(by) < SMALL * max(1.0, *map(abs, means)):
        return _Change("same", "about as much", by > 0, luck)
    amount = "more" if more else "less"
    if clear:
        return _Change("up" if more else "down", amount, by > 0, luck)
    way: Literal["perhaps up", "perhaps down"] = "perhaps up" if more else "perhaps down"
    return _Change(way, amount, by > 0, f"{luck}, which may be luck")


def _is_beyond(reference: Mapping[Any, float], each: Group, judge: Measurement) -> bool | None:
    """Whether every run's reference is outside its interval over test samples, on the same side.

    None if a run has no interval or no reference.
    """
    sides = set()
    for result in each.runs:
        after, other = result.after.get(judge.name), reference.get(result.seed)
        if after is None or after.interval is None or other is None:
            return None
        sides.add((other < after.interval[0]) - (other > after.interval[1]))
    return sides in ({1}, {-1})


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _read_at(judge: Measurement, values: Mapping[Any, float]) -> str:
    return f"{judge.name} is {_mean(values)}"


def _mean(values: Mapping[Any, float]) -> str:
    numbers = list(values.values())
    mean = statistics.fmean(numbers)
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    # Three places are enough for a sentence; the table has more.
    return f"{mean:.3f} ± {deviation:.3f}" if deviation >= 0.0005 else f"{mean:.3f}"

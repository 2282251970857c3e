"""The laws of evaluators."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from ccl_plugins.kinds import registry
from ccl_plugins.metadata.columns import tensor_columns
from ccl_plugins.protocols import Frozen, Images, Measurement, Towers, trait
from ccl_plugins.testing.assertions import (
    require,
    require_equal,
    require_unchanged,
    warnings_ignored,
)
from ccl_plugins.testing.inputs import CLASSES, SHAPE, WORDS, SmallBackbone, normal, seeded
from ccl_plugins.testing.subject import Subject


def splits(train: int = 60, test: int = 30) -> tuple[Frozen, Frozen]:
    """A training split and a test split, whose sizes are ``train`` and ``test``."""
    return _frozen(train, seed=0), _frozen(test, seed=10)


def noise(train: int, test: int, *, seed: int = 0, width: int = 120) -> tuple[Frozen, Frozen]:
    """Splits whose features are noise: ``width`` random numbers for each sample.

    The default width is above 60, so a linear probe that is fitted to 60 samples predicts them right.
    """
    more = (train, seed), (test, seed + 10)
    first, second = (_frozen(n, start, told=False, width=width) for n, start in more)
    return first, second


def _frozen(n: int, seed: int, *, told: bool = True, width: int = 10) -> Frozen:
    """Features, images, a network and two towers; without ``told``, features and images are noise.

    With ``told``, features depend on class and color, and images on the class. The image tower gives the
    first numbers of the features, so a text is near the images of its class.
    """
    label = torch.arange(n) % CLASSES
    color = normal(n, 3, seed=seed).sigmoid()
    features = torch.cat([one_hot(label, CLASSES), color, torch.zeros(n, 4)], 1)
    features = features + 0.3 * normal(n, 10, seed=seed + 1)
    pixels = normal(n, *SHAPE, seed=seed + 2)
    if told:
        pixels[torch.arange(n), label] += 1
    else:
        features = normal(n, width, seed=seed + 1)
    columns = {
        "label": label,
        "digit": label,
        "group": torch.arange(n) // CLASSES % 2,
        "attributes": torch.stack([torch.arange(n) % k == 0 for k in (2, 3, 4)], 1).long(),
        "color": color,
        "height": color[:, 0],
    }
    first = 7  # so that rows of the split differ from positions among these samples
    images = Images(
        torch.arange(n) + first, lambda pieces: (pixels[rows - first] for rows in pieces), _network
    )
    captions = [f"{WORDS[i]} {row}" for row, i in enumerate(label.tolist())]
    towers = Towers(normalize(features[:, :CLASSES], dim=1), _texts, {"caption": captions})
    words = dict.fromkeys(("label", "digit"), WORDS)
    views = normalize(features + 0.1 * normal(2, *features.shape, seed=seed + 3), dim=2)
    original = features + normal(*features.shape, seed=seed + 4)
    return Frozen(
        features, columns, images, towers, words, views, original=original, freeze=_elsewhere
    )


def _elsewhere(split: Any) -> Frozen:
    """Features of another split, which depend on its class ids."""
    columns = tensor_columns(split.metadata)
    return Frozen(
        normal(len(split), 6, seed=9) + one_hot(columns["label"] % 6, 6), columns, freeze=_elsewhere
    )


def _texts(texts: Sequence[str]) -> Tensor:
    """Unit vectors that depend on the class that a text names, and a little on the text's length."""
    named = torch.tensor([[float(word in text) for word in WORDS] for text in texts])
    lengths = torch.tensor([float(len(text)) for text in texts])
    return normalize(named + 0.01 * lengths[:, None] * torch.linspace(0.5, 1, CLASSES), dim=1)


def _held(frozen: Frozen) -> Any:
    towers = frozen.towers and frozen.towers.images
    return frozen.features, dict(frozen.metadata), towers, frozen.projections, frozen.original


def _network() -> SmallBackbone:
    with seeded():
        return SmallBackbone()


def observe(subject: Subject, evaluator: Any) -> Any:
    """The numbers that an evaluator measures, by name and sentence."""
    return _numbers(evaluator(*splits()))


def check_measurements_are_named_numbers(subject: Subject) -> None:
    """An evaluator must return one or more finite measurements, with names such as ``"linear/top1"``.

    No two have the same name.  The ends of an interval must be finite too, the lower one first.
    """
    evaluator = subject.build()
    for given in (splits(), noise(60, 60)):
        measurements = evaluator(*given)
        require(bool(measurements), "it returned nothing")
        for each in measurements:
            require(isinstance(each, Measurement), f"it returned {each!r}, which is no Measurement")
            low, high = each.interval or (0.0, 0.0)
            named = isinstance(each.name, str) and all(each.name.partition("/")[::2])
            finite = isinstance(each.value, float) and math.isfinite(each.value)
            ordered = -math.inf < low <= high < math.inf
            require(named and finite and ordered, f"it returned {each}")
        names = [each.name for each in measurements]
        require(len(set(names)) == len(names), f"two of its measurements have one name: {names}")


def check_intervals_are_over_the_samples(subject: Subject) -> None:
    """An interval must lie near its value, and be narrower over many samples than over few.

    The law compares 30 with 360 samples of noise.  The interval of a mean is 3.5 times as wide over 30
    samples; 1.15 times is enough.  Widths of values above 1, such as ranks, are divided by the value.  A
    value may lie outside its interval by the interval's width, since an estimate may be biased.  A 95 %
    interval of a share p of n samples is about ``4 sqrt(p (1 - p) / n)`` wide.  A width of half as much, as
    of a 68 % interval, is refused; so is a width of more than four times as much, as of single samples.
    """
    evaluator = subject.build()
    by_train = trait(evaluator, "split") == "train"
    few, many = (
        _by_name(evaluator(*(noise(n, 60) if by_train else noise(60, n)))) for n in (30, 360)
    )
    found = [name for name in few if few[name].interval and name in many and many[name].interval]
    if not found:
        raise SkipTest("it has no interval")
    for each in (many[name] for name in found):
        if each.samples and 0.1 <= each.value <= 0.9 and _is_share(each):
            low, high = each.interval or (0.0, 0.0)
            expected = 3.92 * math.sqrt(each.value * (1 - each.value) / each.samples)
            report = f"the interval of {each.name}, {each.value:.3g} of {each.samples} samples, is"
            fits = NARROWEST * expected <= high - low <= WIDEST * expected
            require(fits, f"{report} {high - low:.3g} wide, and not about {expected:.3g}")
    for name in found:
        widths = []
        for each in (few[name], many[name]):
            low, high = sorted(each.interval or (0.0, 0.0))
            width = high - low
            near = low - width <= each.value <= high + width
            require(near, f"{name} is {each.value:.3g}, and its interval {low:.3g} to {high:.3g}")
            widths.append(width / max(1.0, abs(each.value)))
        if few[name].value == many[name].value or not all(widths):
            continue  # the value is of other samples, or at the end of its range
        report = f"{widths[0]:.3g} wide over 30 samples, and {widths[1]:.3g} over 360"
        require(widths[0] > 1.15 * widths[1], f"the interval of {name} is {report}")


def check_measurements_say_what_they_are(subject: Subject) -> None:
    """A measurement must have a sentence, which must name the column that the measurement reads.

    The sentence is one line without a full stop, since tables and pages put it into sentences of their own.
    The column is one of the evaluator's ``columns``, or None; a direction is ``"higher"``, ``"lower"`` or
    None; a chance level is a finite number; and ``role`` is None, since the run fills it in.  ``samples``
    counts the samples of the test split that were measured, not those of the training split; it must not
    leave out one or two of 30.
    """
    evaluator = subject.build()
    if trait(evaluator, "split") == "test":
        more = _by_name(evaluator(*splits(60, 45)))
        for each in evaluator(*splits()):
            other = more.get(each.name, each)
            elsewhere = each.column is None and each.value == other.value  # of other samples
            counted = each.samples is None or each.samples != other.samples or elsewhere
            report = f"{each.name} reports {each.samples} samples for 30 test samples and for 45"
            require(counted, report)
            lost = each.column is not None and each.samples in (28, 29)
            require(not lost, f"{each.name} reports {each.samples} samples for 30 test samples")
    for each in evaluator(*splits()):
        line = each.sentence.strip()
        require(len(line.split()) > 2, f"{each.name} has no sentence but {each.sentence!r}")
        whole = line == each.sentence and "\n" not in line and not line.endswith(".")
        require(whole, f"{each.name} needs a single sentence without a full stop, not {line!r}")
        columns = trait(evaluator, "columns")
        if each.column is not None:
            listed = ", ".join(map(repr, columns)) or "none"
            require(
                each.column in columns,
                f"{each.name} reads the column {each.column!r}, and the evaluator's columns are {listed}",
            )
            require(
                each.column in line,
                f"{each.name} reads {each.column!r}, and says {each.sentence!r}",
            )
        sane = each.direction in (None, "higher", "lower") and each.role is None
        require(sane and math.isfinite(each.chance or 0.0), f"it returned {each}")


def _by_name(measurements: Sequence[Measurement]) -> dict[str, Measurement]:
    return {measurement.name: measurement for measurement in measurements}


def check_features_that_tell_score_better(subject: Subject) -> None:
    """Features that depend on the column must score better than noise, in the stated direction.

    A number that is equal for both does not read the features, or counts each sample as its own neighbor.
    The law takes the worst of three draws of noise.  By luck, a right number may be worse than this: by the
    range of the three draws and by .3 of the larger number together.  The chance level must not be better
    than the number by more than this either.  Where the number is a share of the samples, features that are
    all equal, as after a collapse, must score less.
    """
    evaluator = subject.build()
    telling = splits(240, 60)
    found = [
        each
        for each in evaluator(*telling)
        if each.column is not None and each.direction in ("higher", "lower")
    ]
    if not found:
        raise SkipTest("no measurement of a column has a direction")
    others = [_by_name(evaluator(*noise(240, 60, seed=seed))) for seed in (0, 100, 200)]
    try:
        collapsed = _by_name(evaluator(*map(_collapsed, telling)))
    except Exception:  # it may refuse features that are all equal
        collapsed = {}
    for each in found:
        what = f"{each.name} is {each.value:.3g} for good features, and {each.direction} is better"
        values = [other[each.name].value for other in others if each.name in other]
        if not values:
            continue
        same = all(value == each.value for value in values)
        require(not same, f"{each.name} is {each.value:.3g} for good features and for noise")
        luck = max(values) - min(values)
        of_noise = min(values) if each.direction == "higher" else max(values)
        kept = _gain(each, of_noise, luck) > -WORSE
        require(kept, f"{what}; for noise it is {of_noise:.3g}")
        if each.chance is not None:
            fair = _gain(each, each.chance, luck) > -WORSE
            require(fair, f"{what}; its chance is {each.chance:.3g}")
        of_one = collapsed.get(each.name)
        better = _gain(each, of_noise) > WORSE
        if of_one and better and _is_share(each) and _is_share(of_one):
            less = _gain(each, of_one.value) > 0
            require(less, f"{what}; for features that are all equal it is {of_one.value:.3g}")


LESS = 0.05
"""The least relative change of a right value where samples get the numbers of others; built-ins: .45."""

NARROWEST, WIDEST = 0.65, 4.0
"""The least and the greatest width of a share's interval, relative to a 95 % interval; built-ins: 1."""

WORSE = 0.3
"""The most by which a right value may be worse than noise, relative to the larger; built-ins: .09."""


def _gain(measured: Measurement, other: float, luck: float = 0.0) -> float:
    """By how much a value is better than another one, plus ``luck``, relative to the larger of both."""
    sign = 1 if measured.direction == "higher" else -1
    gain = sign * (measured.value - other)
    return (gain + luck) / max(abs(measured.value), abs(other), 1e-12)


def _is_share(measured: Measurement) -> bool:
    """Whether a value may be a number of samples, divided by the number of all samples."""
    number = measured.value * (measured.samples or math.nan)
    return math.isfinite(number) and abs(number - round(number)) < 1e-4


def _collapsed(split: Frozen) -> Frozen:
    """A split whose images are all equal, and whose features and projections are so too."""

    def equal(x: Tensor | None) -> Any:
        return None if x is None else normalize(torch.ones_like(x), dim=-1)

    def black(pieces: Sequence[Tensor]) -> Iterator[Tensor]:
        return (torch.zeros(len(rows), *SHAPE) for rows in pieces)

    towers = split.towers and replace(split.towers, images=equal(split.towers.images))
    return replace(
        split,
        features=torch.ones_like(split.features),  # whose mean is exact
        projections=equal(split.projections),
        original=equal(split.original),
        images=split.images and replace(split.images, read=black),
        towers=towers,
    )


def check_says_where_a_number_is_undefined(subject: Subject) -> None:
    """For samples of one class, an evaluator must return finite numbers, or raise `UndefinedMetric`.

    If all numbers of a column are equal, no features predict them.  A measurement of such a column that is
    better when higher, such as the explained share of the variance, is undefined and not 0.
    """
    evaluator = subject.build()

    def measured(names: Collection[str]) -> Sequence[Measurement]:
        constant = [
            replace(split, metadata={**split.metadata, **{n: split.metadata[n] * 0 for n in names}})
            for split in splits()
        ]
        try:
            return evaluator(*constant)
        except ValueError:  # an `UndefinedMetric`, or the error of a library
            return []

    ids = _class_ids(splits()[0])
    for each in measured(ids):
        finite = math.isfinite(each.value)
        report = f"{each.name} is {each.value} for samples of one class: raise UndefinedMetric"
        require(finite, report)
    numbers = {*trait(evaluator, "columns")} - {*ids}
    for each in measured(numbers) if numbers else []:
        defined = each.column not in numbers or each.direction != "higher"
        report = f"{each.name} is {each.value:.3g} where all values of {each.column} are 0"
        require(defined, f"{report}: raise UndefinedMetric")


def check_other_test_features_change_the_number(subject: Subject) -> None:
    """A measurement of a column must depend on the features of all samples of the test split.

    For an evaluator with ``split = "train"``, these are the samples of the training split.  The number must
    change if the second half of the samples become copies of the first half.  It must also change if the
    first three or the last three of 159 samples get other features: an evaluator that works in batches may
    leave out the samples that fill no batch.
    """
    evaluator = subject.build()
    place = 0 if trait(evaluator, "split") == "train" else 1

    def measured(split: Frozen, told: tuple[Frozen, Frozen]) -> dict[str, Measurement]:
        given = [*told]
        given[place] = split
        return _by_name(evaluator(*given))

    told = splits()
    width = told[0].features.shape[1]
    samples = [noise(30, 60, seed=seed, width=width)[1] for seed in (50, 60, 70, 80)]
    halves = torch.arange(30).repeat(2)
    whole = [measured(split, told) for split in samples]
    copied = [measured(split.take(halves), told) for split in samples]
    varying: list[str] = []
    found = [each for each in evaluator(*told) if each.column is not None]
    if not found:
        raise SkipTest("it measures no column")
    for each in found:
        values, of_halves = (
            [other[each.name].value for other in measured if each.name in other]
            for measured in (whole, copied)
        )
        same = bool(values) and all(value == each.value for value in values)
        require(not same, f"{each.name} is {each.value:.3g} for {len(values) + 1} different splits")
        varies = len({*values}) > 1
        report = f"{each.name} is {values}, also with copies of the first half as the second half"
        require(not (varies and values == of_halves), f"{report}: it leaves out samples")
        if varies:
            varying.append(each.name)
    many = noise(30, 159, seed=50, width=width)[1]
    expected = measured(many, told)
    for rows, where in ((slice(3), "first"), (slice(-3, None), "last")):
        again = [measured(_with_features_of(many, rows, start), told) for start in OTHER_ROWS]
        for name in varying:
            values = [other[name].value for other in again if name in other and name in expected]
            same = bool(values) and all(value == expected[name].value for value in values)
            report = f"{name} is the same, whatever the features of the {where} 3 of 159 samples"
            require(not same, report)


OTHER_ROWS = range(20, 56, 3)
"""Where the three samples begin whose features others get; by luck, all 12 shares agree once in 50,000."""


def _with_features_of(split: Frozen, rows: slice, start: int) -> Frozen:
    """A split in which the samples ``rows`` keep their columns, and get features and images of others."""
    order = torch.arange(len(split.features))
    order[rows] = torch.arange(start, start + len(order[rows]))
    taken = split.take(order)
    if taken.towers is None or split.towers is None:
        return replace(taken, metadata=split.metadata)
    towers = replace(taken.towers, captions=split.towers.captions)
    return replace(taken, metadata=split.metadata, towers=towers)


def check_reads_what_it_declares(subject: Subject) -> None:
    """An evaluator must read exactly what it declares, in ``columns`` and in its traits ``reads_...``.

    It reads all numbers of a column with several numbers for each sample.  A run refuses a data set that
    lacks a declared column, and need not have what is not declared.
    """
    evaluator = subject.build()
    columns = trait(evaluator, "columns")
    undeclared = {
        part: None
        for part in ("towers", "projections", "original")
        if not trait(evaluator, f"reads_{part}")
    }

    def only(split: Frozen, names: Collection[str]) -> Frozen:
        kept = {name: z for name, z in split.metadata.items() if name in names}
        return replace(split, metadata=kept, **undeclared)  # type: ignore[arg-type]

    def measured(names: Collection[str]) -> dict[str, list[float]]:
        return _numbers(evaluator(*(only(each, names) for each in noise(60, 30))))

    expected = _numbers(evaluator(*noise(60, 30)))
    if _numbers(evaluator(*noise(60, 30))) != expected:
        raise SkipTest("equal features give different numbers")
    beside = f"without what it does not declare (its columns: {', '.join(columns) or 'none'})"
    require_equal(measured(columns), expected, beside)
    for name in columns:
        try:
            without = measured({*columns} - {name})
        except Exception:  # it cannot do without the column, so it reads it
            continue
        require(without != expected, f"without the column {name} it measures the same")
    for name in columns:
        (train, test), changed = noise(60, 30), []
        if test.metadata[name].ndim < 2:
            continue
        for split in (train, test):
            values = split.metadata[name].clone()
            values[:, -1] = values[:, -1].roll(1)
            changed.append(replace(split, metadata={**split.metadata, name: values}))
        report = f"it does not read the last of the {values.shape[1]} numbers of {name}"
        require(_numbers(evaluator(*changed)) != expected, report)


def _numbers(measurements: Sequence[Measurement]) -> dict[str, list[float]]:
    """The numbers of measurements, by name and sentence."""
    return {
        f"{each.name}: {each.sentence}": [
            number
            for number in (each.value, each.chance, each.samples, *(each.interval or ()))
            if number is not None
        ]
        for each in measurements
    }


def check_reads_the_column_of_its_parameter(subject: Subject) -> None:
    """A parameter that names a column must decide which column is read."""
    params, built = subject.choice.params, subject.build()
    named = [key for key, value in params.items() if value in [*trait(built, "columns")]]
    if not named:
        raise SkipTest("no parameter names one of its columns")
    for key in named:
        old = params[key]
        renamed = registry().choose(subject.kind, subject.spec.id, **{**params, key: "another"})
        evaluator = subject.chosen_as(renamed).build()
        found = evaluator(*(_renamed(each, old) for each in splits()))
        for before, after in zip(built(*splits()), found, strict=False):
            where = f"{before.name} of {key}={old!r}, and {after.name} of {key}='another', the same values"
            require_equal(after.value, before.value, where, rtol=1e-3, atol=1e-4)
            require(
                after.column != old, f"with {key}='another', {after.name} is of the column {old!r}"
            )


def _renamed(split: Frozen, column: str) -> Frozen:
    """A split whose column is renamed ``another``, and whose old name has the values of other samples."""
    values, vocabulary = split.metadata[column], dict(split.vocabulary)
    if column in vocabulary:
        vocabulary["another"] = vocabulary[column]
    shuffled = _with_shuffled_columns(split).metadata[column]
    metadata = {**split.metadata, column: shuffled, "another": values}
    return replace(split, metadata=metadata, vocabulary=vocabulary)


def check_takes_one_number_of_a_sample_either_way(subject: Subject) -> None:
    """A column of one number for each sample must be measured alike as (N,) and as (N, 1)."""
    evaluator = subject.build()
    names = [n for n, types in trait(evaluator, "columns").items() if "continuous" in types]
    if not names:
        raise SkipTest("it reads no column of numbers")
    flat, upright = (
        [
            replace(
                split,
                metadata={
                    **split.metadata,
                    **dict.fromkeys(names, split.metadata["height"].reshape(shape)),
                },
            )
            for split in splits()
        ]
        for shape in ((-1,), (-1, 1))
    )
    measured = {each.name: each.value for each in evaluator(*flat)}
    again = {each.name: each.value for each in evaluator(*upright)}
    require_equal(again, measured, "a column (N, 1) and then (N,)", rtol=1e-4, atol=1e-5)


def check_noise_meets_the_chance_that_is_stated(subject: Subject) -> None:
    """With features of noise, a measurement of class ids must be near its ``chance``.

    With 360 test samples in 3 classes a share has a standard deviation of .025: it may differ by .12.
    Where two thirds of the samples are of one class, noise and equal features must not be more than .12
    above the chance: an evaluator that always names this class is right for two thirds of the samples.
    """
    evaluator = subject.build()
    given = noise(60, 360)
    ids = _class_ids(given[1])

    def stated(given: tuple[Frozen, Frozen]) -> list[tuple[Measurement, float]]:
        return [
            (each, each.chance)
            for each in evaluator(*given)
            if each.column in ids and each.direction == "higher" and each.chance is not None
        ]

    if not (even := stated(given)):
        raise SkipTest("it states no chance for a column of class ids")
    for each, chance in even:
        near = abs(each.value - chance) <= 0.12
        require(near, f"{each.name} is {each.value:.3g} for noise, and its chance {chance:.3g}")
    uneven = tuple(each.take(_two_thirds_of_one_class(each)) for each in noise(120, 720))
    for what, say_nothing in (
        ("noise", uneven),
        ("equal features", tuple(map(_collapsed, uneven))),
    ):
        try:
            measured = stated(say_nothing)  # type: ignore[arg-type]
        except Exception:  # it may refuse these samples
            continue
        for each, chance in measured:
            report = f"{each.name} is {each.value:.3g} for {what} where two thirds are of one class"
            require(each.value <= chance + 0.12, f"{report}, and its chance {chance:.3g}")


def _two_thirds_of_one_class(split: Frozen) -> Tensor:
    """Half of the rows: the first of three classes has two thirds of them, the others a sixth each."""
    row = torch.arange(len(split.features))
    return row[(row % CLASSES == 0) | (row // CLASSES % 4 == 0)]


def check_does_not_learn_from_the_test_split(subject: Subject) -> None:
    """With test values in another order, or with features of noise, little gain over chance may remain.

    An evaluator that is fitted to the test split, or to both splits, keeps its gain.  The law examines
    measurements of a column that have a chance level; if lower is better, the gain is divided by it.
    """
    evaluator = subject.build()

    def gain(each: Measurement, value: float) -> float:
        chance = each.chance or 0.0
        return value - chance if each.direction == "higher" else (chance - value) / abs(chance)

    def found(given: tuple[Frozen, Frozen]) -> list[Measurement]:
        judged = [each for each in evaluator(*given) if each.column and each.direction]
        return [
            each
            for each in judged
            if each.chance is not None and (each.chance or each.direction == "higher")
        ]

    for each in found(noise(60, 60)):
        more = gain(each, each.value)
        require(more <= 0.4, f"for features of noise, {each.name} gains {more:.2g} over chance")
    train, test = given = splits()
    ids = _class_ids(test)
    if trait(evaluator, "split") == "train":
        shuffled = _by_name(evaluator(_with_shuffled_columns(train), test))
    else:
        shuffled = _by_name(evaluator(train, _with_shuffled_columns(test)))
    for each in found(given):
        if each.column not in ids or each.direction != "higher" or gain(each, each.value) < 0.2:
            continue
        more, left = (gain(each, value) for value in (each.value, shuffled[each.name].value))
        report = f"{each.name} gains {more:.2g}, and still {left:.2g} with shuffled columns"
        require(left <= 0.6 * more, report)


def _class_ids(split: Frozen) -> dict[str, Tensor]:
    """The columns of class ids, and those of 0 and 1."""
    return {name: z for name, z in split.metadata.items() if not z.is_floating_point()}


def _with_shuffled_columns(split: Frozen) -> Frozen:
    """A split whose samples have the columns of other samples."""
    order = torch.randperm(len(split.features), generator=torch.Generator().manual_seed(0))
    return replace(split, metadata={name: z[order] for name, z in split.metadata.items()})


def check_reads_the_features_alone(subject: Subject) -> None:
    """If the class ids of the test split are exchanged in turn, only one order may score well.

    The features stay the same, so an evaluator that reads the column itself scores well in every order.
    The shares of right answers in all orders add up to 1, so the least must be at most .55.  The law
    examines measurements of class ids that lie between 0 and 1, depend on the order, and are better when
    higher.  A measurement of numbers must change if samples get the numbers of others.
    """
    evaluator = subject.build()
    train, test = splits()
    numbers = [
        name
        for name in trait(evaluator, "columns")
        if name in test.metadata and test.metadata[name].is_floating_point()
    ]
    if numbers:
        _require_less_of_other_numbers(evaluator, numbers)
    ids = {name: z for name, z in _class_ids(test).items() if z.ndim == 1}
    by_shift = []
    for shift in range(CLASSES):
        columns = {name: (z + shift) % (int(z.max()) + 1) for name, z in ids.items()}
        shifted = replace(test, metadata={**test.metadata, **columns})
        by_shift.append(_by_name(evaluator(train, shifted)))
    found = [e for e in by_shift[0].values() if e.column in ids and e.direction == "higher"]
    if not found:
        raise SkipTest("it measures no column of class ids")
    for each in found:
        orders = int(ids[each.column or ""].max()) + 1
        values = sorted(m[each.name].value for m in by_shift[:orders] if each.name in m)
        if values[-1] - values[0] < 1e-9 or values[0] < 0 or values[-1] > 1:  # but for rounding
            continue
        listed = ", ".join(f"{value:.3g}" for value in values)
        require(
            values[0] <= 0.55,
            f"{each.name} is {listed} as the class ids of the test split are exchanged",
        )


def _require_less_of_other_numbers(evaluator: Any, numbers: Collection[str]) -> None:
    """Require that a value changes if samples have the numbers of others."""

    def with_numbers(split: Frozen) -> Frozen:
        z = 100 * split.metadata["height"]
        told = z[:, None] / 100 + 0.1 * normal(len(z), 1, seed=40)
        features = torch.cat([split.features, 3 * told], 1)
        return replace(
            split, features=features, metadata={**split.metadata, **dict.fromkeys(numbers, z)}
        )

    train, test = map(with_numbers, splits(120, 60))
    place = 0 if trait(evaluator, "split") == "train" else 1
    given = [train, test]
    own = _by_name(evaluator(*given))
    given[place] = _with_shuffled_columns(given[place])
    others = _by_name(evaluator(*given))
    for name, each in own.items():
        if each.column in numbers and each.direction and name in others:
            other = others[name].value
            report = f"{name} is {each.value:.3g}, and {other:.3g} with numbers of other samples"
            require(abs(_gain(each, other)) > LESS, report)


def check_chooses_nothing_by_the_test_split(subject: Subject) -> None:
    """What is fitted to the training split must not be chosen by the classes of the test split.

    If a penalty, a number of neighbors or an epoch is chosen by its accuracy on the test split, this
    accuracy is too high.  Without such a choice, the shares of right answers add up to a whole number when
    the class ids of the test split are exchanged in turn.
    """
    evaluator = subject.build()
    chosen = False
    for seed in (0, 100, 200):
        (train, test), (others, _) = noise(120, 61, seed=seed), noise(120, 61, seed=seed + 300)
        ids = {name: z for name, z in _class_ids(test).items() if z.ndim == 1}
        by_shift = [
            _by_name(evaluator(train, _turned(test, [*ids], shift))) for shift in range(CLASSES)
        ]
        fitted = _by_name(subject.build()(others, test))
        for name, each in by_shift[0].items():
            values = [measured[name].value for measured in by_shift if name in measured]
            judged = each.column in ids and int(ids[each.column or ""].max()) + 1 == CLASSES
            shares = all(_is_share(m[name]) for m in by_shift if name in m)
            # Left out: what is found among the test samples alone, and what is no share of right answers.
            if not judged or not shares or name not in fitted or fitted[name].value == each.value:
                continue
            if len(values) < CLASSES or trait(evaluator, "within") or max(values) == min(values):
                continue
            chosen, total = True, sum(values)
            listed = ", ".join(f"{value:.3g}" for value in values)
            report = f"{name} is {listed} as the class ids of the test split are exchanged"
            whole = abs(total - round(total)) < 1e-3
            require(whole, f"{report}, {total:.3g} together: it chooses by the test split")
    if not chosen:
        raise SkipTest("it measures no share that is fitted to the training split")


def _turned(split: Frozen, names: Collection[str], shift: int) -> Frozen:
    """A split whose class ids in these columns grow by ``shift``, modulo the number of classes."""
    columns = {n: (z + shift) % (int(z.max()) + 1) for n, z in split.metadata.items() if n in names}
    return replace(split, metadata={**split.metadata, **columns})


def check_is_fitted_within_the_samples_if_it_says_so(subject: Subject) -> None:
    """With ``within = True``, an evaluator must be fitted to the measured samples, and to no others."""
    evaluator = subject.build()
    if not trait(evaluator, "within"):
        raise SkipTest("it does not say that it is fitted within the measured samples")
    train, test = splits()
    expected = _by_name(evaluator(train, test))
    for name, each in _by_name(evaluator(noise(60, 30, seed=3, width=10)[0], test)).items():
        if name in expected:
            where = f"{name} of other features for training"
            require_equal(each.value, expected[name].value, where, rtol=1e-4, atol=1e-5)


def check_leaves_out_samples_without_a_value(subject: Subject) -> None:
    """Samples without a value, NaN or -1, must be left out of a measurement.

    An error and a number that is not finite keep the law, since a run reports both.
    """
    evaluator = subject.build()
    if not (columns := [*trait(evaluator, "columns")]):
        raise SkipTest("it reads no column")
    given = splits()
    lacking, present = zip(*(_without_values(split, columns) for split in given), strict=True)
    try:
        with warnings_ignored():
            found = _by_name(evaluator(*lacking))
    except ValueError:
        return
    expected = _by_name(subject.build()(*present))
    for name, each in found.items():
        if not math.isfinite(each.value) or name not in expected:
            continue
        where = f"{name} where a fifth of the samples lack a value, and without these"
        found_of, without = (
            [math.nan if n is None else float(n) for n in (m.value, m.chance, m.samples)]
            for m in (each, expected[name])
        )
        require_equal(found_of, without, where, rtol=1e-3, atol=1e-4)


def _without_values(split: Frozen, columns: Collection[str]) -> tuple[Frozen, Frozen]:
    """A split in whose columns a fifth of the samples lack a value, and the split of the others."""
    gone = torch.arange(len(split.features)) % 5 == 3
    lacking = {
        name: z.masked_fill(
            gone.reshape(-1, *[1] * (z.ndim - 1)), math.nan if z.is_floating_point() else -1
        )
        for name in columns
        for z in [split.metadata[name]]
    }
    return (
        replace(split, metadata={**split.metadata, **lacking}),
        split.take((~gone).nonzero().flatten()),
    )


def check_takes_any_class_ids(subject: Subject) -> None:
    """Class ids may begin anywhere and have gaps, and the test split may lack a class.

    Other ids of the same classes give the same numbers.  What a class without a test sample leaves
    undefined is an `UndefinedMetric`.
    """
    evaluator = subject.build()
    given = splits()
    ids = [
        name
        for name in trait(evaluator, "columns")
        if name in (held := _class_ids(given[0])) and held[name].ndim == 1
    ]
    if not ids:
        raise SkipTest("it reads no column of class ids")
    if not trait(evaluator, "reads_towers"):  # with towers, ids in gaps would need names too
        renumbered = [
            replace(
                split,
                metadata={**split.metadata, **{name: 3 * split.metadata[name] + 4 for name in ids}},
                vocabulary={},
            )
            for split in given
        ]
        expected = _by_name(evaluator(*given))
        try:
            found = _by_name(subject.build()(*renumbered))
        except ValueError as error:
            raise AssertionError(f"for the class ids 4, 7 and 10: {error}") from error
        for name, each in found.items():
            # A number that is better when lower may be an error of ids that are read as numbers.
            if name in expected and each.direction == "higher":
                where = f"{name} for the class ids 4, 7 and 10, and for 0, 1 and 2"
                after, before = (
                    [m.value, math.nan if m.chance is None else m.chance]
                    for m in (each, expected[name])
                )
                require_equal(after, before, where, rtol=1e-3, atol=1e-4)
    train, test = given
    for lacking in (0, CLASSES - 1):
        rows = (test.metadata[ids[0]] != lacking).nonzero().flatten()
        try:
            measured = evaluator(train, test.take(rows))
        except ValueError:
            continue
        for each in measured:
            report = f"{each.name} is {each.value} where the test split lacks the class {lacking}"
            require(math.isfinite(each.value), f"{report}: raise UndefinedMetric")


def check_has_no_number_of_classes_that_training_lacks(subject: Subject) -> None:
    """Where training has none of the measured classes, no measurement may be below chance.

    An evaluator that is fitted to the training split can name none of them, whatever the features are: it
    must raise `UndefinedMetric` and not return 0.  A measurement within the measured samples alone keeps
    its value.  Where training has some of the classes, a fitted evaluator measures samples of these alone.
    """
    evaluator = subject.build()
    train, test = splits()
    ids = {name: z for name, z in _class_ids(test).items() if z.ndim == 1}
    for column in trait(evaluator, "columns"):
        if column in ids:
            _require_known_classes_alone(subject, column)
    others = {**test.metadata, **{name: z + 2 * int(z.max()) + 1 for name, z in ids.items()}}
    try:
        measurements = evaluator(train, replace(test, metadata=others))
    except ValueError:
        return
    known = {each.name: each.value for each in evaluator(train, test)}
    for each in measurements:
        if each.column in ids and each.direction == "higher" and each.chance is not None:
            kept = abs(each.value - known.get(each.name, math.inf)) < 1e-6
            require(
                kept or each.value >= each.chance,
                f"{each.name} is {each.value:.2g} for classes that training lacks, and its chance"
                f" {each.chance:.2g}: raise UndefinedMetric, as evaluators.of_known_classes does",
            )


def _require_known_classes_alone(subject: Subject, column: str) -> None:
    """Require that what is fitted to training without a class is measured on samples of the others."""

    def without_the_last(split: Frozen) -> Frozen:
        ids = split.metadata[column]
        return split.take((ids != ids.max()).nonzero().flatten())

    def measured(train: Frozen, test: Frozen) -> dict[str, Measurement]:
        with warnings_ignored():
            return _by_name(subject.build()(without_the_last(train), test))

    train, test = splits()
    if trait(subject.build(), "split") == "train" or len(train.metadata[column].unique()) < 3:
        return
    try:
        everything, some = (
            measured(train, test),
            measured(splits()[0], without_the_last(splits()[1])),
        )
        fitted = measured(noise(60, 30, width=10)[0], without_the_last(splits()[1]))
    except ValueError:
        return
    for name, each in some.items():
        reads = name in fitted and fitted[name].value != each.value
        if each.column == column and reads and name in everything:
            found = everything[name].value
            report = f"{name} is {found:.3g} where training lacks one of the classes of {column!r}"
            apart = abs(found - each.value) > 1e-3 * max(1.0, abs(each.value))
            require(not apart, f"{report}, and {each.value:.3g} of the samples of the others")


def check_is_deterministic(subject: Subject) -> None:
    """Equal features must give equal measurements, whatever the evaluator measured before."""
    evaluator = subject.build()

    def measured() -> Any:
        return observe(subject, evaluator), _numbers(evaluator(*noise(60, 30)))

    first = measured()
    require_equal(measured(), first)
    others = noise(60, 30, seed=7)
    fresh = _numbers(subject.build()(*others))
    require_equal(_numbers(evaluator(*others)), fresh, "of other features, after these")


def check_leaves_the_features_as_they_are(subject: Subject) -> None:
    """An evaluator must not change features or metadata: other evaluators read them next."""
    given = splits()
    with require_unchanged(lambda: [_held(each) for each in given]):
        subject.build()(*given)

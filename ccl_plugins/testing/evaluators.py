"""The laws of evaluators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from ccl_plugins.metadata.columns import tensor_columns
from ccl_plugins.protocols import Frozen, Images, Measurement, Towers, trait
from ccl_plugins.testing.assertions import require, require_equal, require_unchanged
from ccl_plugins.testing.inputs import CLASSES, SHAPE, WORDS, SmallBackbone, normal, seeded
from ccl_plugins.testing.subject import Subject


def splits() -> tuple[Frozen, Frozen]:
    """Features for training and for testing."""
    return _frozen(60, seed=0), _frozen(30, seed=10)


def _frozen(n: int, seed: int, told: bool = True, width: int = 120) -> Frozen:
    """Features that depend on class and color, with images, a network, and two towers.

    The towers' space is that of the features' first numbers: a text is near to images of its class.
    If not ``told``, features are ``width`` numbers that depend on nothing, more than training has samples.
    """
    label = torch.arange(n) % CLASSES
    color = normal(n, 3, seed=seed).sigmoid()
    features = torch.cat([one_hot(label, CLASSES), color, torch.zeros(n, 4)], 1)
    features = features + 0.3 * normal(n, 10, seed=seed + 1)
    if not told:
        features = normal(n, width, seed=seed + 1)
    columns = {
        "label": label,
        "digit": label,
        "group": torch.arange(n) // CLASSES % 2,
        "attributes": torch.stack([torch.arange(n) % k == 0 for k in (2, 3, 4)], 1).long(),
        "color": color,
        "height": color[:, 0],
    }
    pixels = normal(n, *SHAPE, seed=seed + 2)
    images = Images(torch.arange(n), lambda pieces: (pixels[rows] for rows in pieces), _network)
    captions = [f"{WORDS[i]} {row}" for row, i in enumerate(label.tolist())]
    towers = Towers(normalize(features[:, :CLASSES], dim=1), _texts, {"caption": captions})
    words = dict.fromkeys(("label", "digit"), WORDS)
    views = normalize(features + 0.1 * normal(2, *features.shape, seed=seed + 3), dim=2)
    original = features + normal(*features.shape, seed=seed + 4)
    return Frozen(
        features, columns, images, towers, words, views, original=original, freeze=_elsewhere
    )


def _elsewhere(split: Any) -> Frozen:
    """Features of another split, of which its columns say something."""
    columns = tensor_columns(split.metadata)
    return Frozen(
        normal(len(split), 6, seed=9) + one_hot(columns["label"] % 6, 6), columns, freeze=_elsewhere
    )


def _texts(texts: Sequence[str]) -> Tensor:
    """Unit vectors of texts that name classes."""
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
    """The numbers that it measures, by their names and sentences."""
    return {
        f"{each.name}: {each.sentence}": [
            number
            for number in (each.value, each.chance, each.samples, *(each.interval or ()))
            if number is not None
        ]
        for each in evaluator(*splits())
    }


def check_measurements_are_named_numbers(subject: Subject) -> None:
    """An evaluator must return one or more finite measurements, each with a name as ``"linear/top1"``.

    No two have the same name.  The ends of an interval must be finite too, the lower one first.
    """
    measurements = subject.build()(*splits())
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


def check_measurements_say_what_they_are(subject: Subject) -> None:
    """A measurement must have a sentence, and the column that it reads must be in it.

    The sentence is one line without a full stop, since tables and pages put it into their own.  The column
    is one of the evaluator's ``columns``, or None; a direction is ``"higher"``, ``"lower"`` or None; a
    chance level is a finite number; and the role is left to the run.
    """
    evaluator = subject.build()
    for each in evaluator(*splits()):
        line = each.sentence.strip()
        require(len(line.split()) > 2, f"{each.name} has no sentence but {each.sentence!r}")
        whole = line == each.sentence and "\n" not in line and not line.endswith(".")
        require(
            whole, f"the sentence of {each.name} is no single one without a full stop: {line!r}"
        )
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
    """Features that tell the class must score better than noise, in the direction that is stated.

    A number that is the same of both does not read the features, or finds each sample as its own neighbor.
    Of a column of class ids, a right probe of a quick example may be worse than noise by luck, by less than
    .45; of numbers, the direction is not compared.
    """
    evaluator = subject.build()
    telling = evaluator(*splits())
    noise = [
        _by_name(
            evaluator(_frozen(60, seed=seed, told=False), _frozen(60, seed=seed + 10, told=False))
        )
        for seed in (0, 100, 200)
    ]
    found = [each for each in telling if each.column is not None and each.direction is not None]
    if not found:
        raise SkipTest("no measurement of a column has a direction")
    columns = splits()[1].metadata
    for each in found:
        others = [measured[each.name].value for measured in noise if each.name in measured]
        if not others:
            continue
        same = all(value == each.value for value in others)
        require(not same, f"{each.name} is {each.value:.3g} of features that tell and of noise")
        if columns[each.column].is_floating_point():
            continue
        sign = 1 if each.direction == "higher" else -1
        gains = [sign * (each.value - value) for value in others]
        require(
            max(gains) > -0.45,
            f"{each.name}, of which {each.direction} is better, is {each.value:.3g} of features that tell,"
            f" and {others[0]:.3g} of noise",
        )


def check_other_test_features_change_the_number(subject: Subject) -> None:
    """What is measured of a column must depend on the features of the test split."""
    evaluator = subject.build()
    train, test = splits()
    width = train.features.shape[1]
    noise = (_frozen(30, seed=seed, told=False, width=width) for seed in (50, 60, 70))
    others = [_by_name(evaluator(train, split)) for split in noise]
    found = [each for each in evaluator(train, test) if each.column is not None]
    if not found:
        raise SkipTest("it measures no column")
    for each in found:
        values = [other[each.name].value for other in others if each.name in other]
        same = bool(values) and all(value == each.value for value in values)
        require(not same, f"{each.name} is {each.value:.3g} of four test splits")


def check_noise_meets_the_chance_that_is_stated(subject: Subject) -> None:
    """Of features that say nothing, a measurement of class ids must be near its ``chance``.

    With 360 test samples in 3 classes a share has a standard deviation of .025: it may differ by .12.
    """
    evaluator = subject.build()
    noise = evaluator(_frozen(60, seed=0, told=False), _frozen(360, seed=10, told=False))
    found = [each for each in noise if each.chance is not None and _is_of_classes(each)]
    if not found:
        raise SkipTest("it states no chance for a column of class ids")
    for each in found:
        near = abs(each.value - (each.chance or 0.0)) <= 0.12
        require(near, f"{each.name} is {each.value:.3g} of noise, and its chance {each.chance:.3g}")


def check_does_not_learn_from_the_test_split(subject: Subject) -> None:
    """With test values in another order, or features that say nothing, there is little above chance.

    What is fitted to the test split, or to both, keeps its value.  This is for measurements of a column of
    class ids, with a chance level, of which higher values are better.
    """
    evaluator = subject.build()
    for each in evaluator(_frozen(60, seed=0, told=False), _frozen(60, seed=10, told=False)):
        if each.column is not None and each.direction == "higher" and each.chance is not None:
            gain = each.value - each.chance
            require(
                gain <= 0.4, f"features that say nothing give {each.name} {gain:.2g} above chance"
            )
    train, test = splits()
    shuffled = _by_name(evaluator(train, _with_shuffled_columns(test)))
    for each in evaluator(train, test):
        if each.column is None or each.direction != "higher" or each.chance is None:
            continue
        if train.metadata[each.column].is_floating_point() or each.value < each.chance + 0.2:
            continue
        gain, left = each.value - each.chance, shuffled[each.name].value - each.chance
        require(left <= 0.6 * gain, f"of the gain of {each.name}, {gain:.2g}, {left:.2g} is left")


def _with_shuffled_columns(split: Frozen) -> Frozen:
    """A split whose samples have the columns of other samples."""
    order = torch.randperm(len(split.features), generator=torch.Generator().manual_seed(0))
    return replace(split, metadata={name: z[order] for name, z in split.metadata.items()})


def check_reads_the_features_alone(subject: Subject) -> None:
    """Features cannot follow when the classes of the test split change places: one order alone scores well.

    What has the column itself beside the features scores well in each.  A share of right answers is above a
    half in one of the orders at most; so the second best must be at most .6.  This is for measurements of
    class ids that depend on the order, from 0 to 1, of which higher values are better.
    """
    evaluator = subject.build()
    train, test = splits()
    ids = {n: z for n, z in test.metadata.items() if z.ndim == 1 and not z.is_floating_point()}
    by_shift = []
    for shift in range(CLASSES):
        columns = {name: (z + shift) % (int(z.max()) + 1) for name, z in ids.items()}
        shifted = replace(test, metadata={**test.metadata, **columns})
        by_shift.append(_by_name(evaluator(train, shifted)))
    found = [each for each in by_shift[0].values() if each.column in ids and _is_of_classes(each)]
    if not found:
        raise SkipTest("it measures no column of class ids")
    for each in found:
        orders = int(ids[each.column or ""].max()) + 1
        values = sorted(m[each.name].value for m in by_shift[:orders] if each.name in m)
        if values[0] == values[-1] or values[0] < 0 or values[-1] > 1:
            continue
        listed = ", ".join(f"{value:.3g}" for value in values)
        require(
            values[-2] <= 0.6,
            f"{each.name} is {listed} as the classes of the test split change places",
        )


def _is_of_classes(measurement: Measurement) -> bool:
    """Whether it is of a column of class ids or 0/1 columns, and better if it is higher."""
    columns = splits()[1].metadata
    is_higher_better = measurement.column in columns and measurement.direction == "higher"
    return is_higher_better and not columns[measurement.column or ""].is_floating_point()


def check_has_no_number_of_classes_that_training_lacks(subject: Subject) -> None:
    """Where training has none of the classes that are measured, no measurement of them is below chance.

    What is fitted to the training split names none of them, whatever features hold: that is an
    `UndefinedMetric`, and not 0.  What is found within the measured samples alone stays as it is.
    """
    evaluator = subject.build()
    train, test = splits()
    ids = {n: z for n, z in test.metadata.items() if z.ndim == 1 and not z.is_floating_point()}
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
                f"{each.name} is {each.value:.2g} of classes that training lacks, and chance"
                f" {each.chance:.2g}: raise UndefinedMetric, as evaluators.of_known_classes does",
            )


def check_is_deterministic(subject: Subject) -> None:
    """Equal features must give equal measurements."""
    evaluator = subject.build()
    first = observe(subject, evaluator)
    require_equal(observe(subject, evaluator), first)


def check_leaves_the_features_as_they_are(subject: Subject) -> None:
    """An evaluator must not change features or metadata: other evaluators read them next."""
    given = splits()
    with require_unchanged(lambda: [_held(each) for each in given]):
        subject.build()(*given)

"""Evaluators that break one law each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import torch
from support.broken import law_tests

from ccl_plugins.evaluators import KNN
from ccl_plugins.protocols import Measurement


class Sound:
    """The mean of all features beside a column."""

    columns: ClassVar = {"label": ("categorical",)}

    def __call__(self, train, test):
        value, sentence = float(test.features.mean()), "the mean of all test features of a label"
        one = Measurement("mean/all", value, sentence, column="label", chance=0.0)
        return [replace(one, **self.changes)]

    changes: ClassVar = {}


class Nameless(Sound):
    """A measurement without the evaluator's name."""

    changes: ClassVar = {"name": "mean"}


class Turned(Sound):
    """An interval whose ends are exchanged."""

    changes: ClassVar = {"interval": (0.6, 0.4)}


class Infinite(Sound):
    """A number that is none."""

    changes: ClassVar = {"value": math.nan}


class Twice(Sound):
    """Two measurements of one name."""

    def __call__(self, train, test):
        return 2 * super().__call__(train, test)


class Silent(Sound):
    """A measurement without a sentence."""

    changes: ClassVar = {"sentence": ""}


class Talking(Sound):
    """More than one sentence."""

    changes: ClassVar = {"sentence": "This is a mean. It is one of the label."}


class Hiding(Sound):
    """A sentence that does not say which column is read."""

    changes: ClassVar = {"sentence": "the mean of all test features"}


class Elsewhere(Sound):
    """A column that it does not declare."""

    changes: ClassVar = {"column": "color", "sentence": "the mean of all colors of the test"}


class Aimless(Sound):
    """A direction that is none."""

    changes: ClassVar = {"direction": "better"}


class Hopeless(Sound):
    """A chance level that is none."""

    changes: ClassVar = {"chance": math.inf}


class Presuming(Sound):
    """A role, which the run knows."""

    changes: ClassVar = {"role": "label"}


class Counting(Sound):
    """Counts its calls."""

    calls = 0

    def __call__(self, train, test):
        self.calls += 1
        return [Measurement("mean/all", float(self.calls), "the number of its calls")]


class Spoiling(Sound):
    """Changes the features."""

    def __call__(self, train, test):
        found = super().__call__(train, test)
        test.features.zero_()
        return found


class SpoilingTheOriginal(Sound):
    """Changes the features of the network before training."""

    def __call__(self, train, test):
        test.original.zero_()
        return super().__call__(train, test)


NUMBERS, SAID = {"measurements_are_named_numbers"}, {"measurements_say_what_they_are"}


class Cheating(Sound):
    """Is fitted to the test split, and measured on it."""

    def __call__(self, train, test):
        ids = test.metadata["label"]
        named = ids  # a network that is large enough learns them all
        value = float((named == ids).float().mean())
        line = "the share of test samples whose label is named right"
        return [Measurement("cheat/top1", value, line, 30, None, "label", None, "higher", 1 / 3)]


class CheatingOnBoth(KNN):
    """Has the test samples among the neighbors."""

    def __call__(self, train, test):
        columns = {k: torch.cat([z, test.metadata[k]]) for k, z in train.metadata.items()}
        features = torch.cat([train.features, test.features])
        return super().__call__(replace(train, features=features, metadata=columns), test)


class Unaware(KNN):
    """Names classes of training, where others are measured."""

    def __call__(self, train, test):
        return KNN.__call__.__wrapped__(self, train, test)


class Errors(KNN):
    """The share of wrong answers, said to be better if it is higher."""

    def __call__(self, train, test):
        return [
            replace(each, value=1 - each.value, interval=None, chance=None)
            for each in super().__call__(train, test)
        ]


class OwnNeighbor(Sound):
    """The class of the nearest test sample, which is the sample itself."""

    def __call__(self, train, test):
        ids, line = test.metadata["label"], "the share of test samples next to one of their label"
        nearest = torch.cdist(test.features, test.features).argmin(1)
        value = float((ids[nearest] == ids).float().mean())
        return [Measurement("near/share", value, line, 30, None, "label", None, "higher")]


class OfTraining(KNN):
    """Measures the training split."""

    def __call__(self, train, test):
        return super().__call__(train, train)


class Halves(KNN):
    """A chance of a half, whatever the number of classes."""

    def __call__(self, train, test):
        return [replace(each, chance=0.5) for each in super().__call__(train, test)]


class Peeking(KNN):
    """Puts the column beside the features, and states no chance."""

    def __call__(self, train, test):
        train, test = (
            replace(
                split,
                features=torch.cat([split.features, 100 * split.metadata["label"][:, None]], 1),
            )
            for split in (train, test)
        )
        return [replace(each, chance=None) for each in super().__call__(train, test)]


TELLS, OTHERS = {"features_that_tell_score_better"}, {"other_test_features_change_the_number"}
LEARNS, MEETS = {"does_not_learn_from_the_test_split"}, {"noise_meets_the_chance_that_is_stated"}
ALONE = {"reads_the_features_alone"}
BROKEN = {
    Sound: set(),
    Errors: TELLS | ALONE,
    OwnNeighbor: TELLS | OTHERS,
    OfTraining: TELLS | OTHERS | LEARNS | MEETS,
    Halves: MEETS,
    Peeking: ALONE,
    Unaware: {"has_no_number_of_classes_that_training_lacks"},
    Cheating: TELLS | OTHERS | LEARNS | MEETS,
    CheatingOnBoth: TELLS | LEARNS | MEETS | ALONE,
    Nameless: NUMBERS,
    Turned: NUMBERS,
    Infinite: NUMBERS,
    Twice: NUMBERS,
    Silent: SAID,
    Talking: SAID,
    Hiding: SAID,
    Elsewhere: SAID,
    Aimless: SAID,
    Hopeless: SAID,
    Presuming: SAID,
    Counting: {"is_deterministic"},
    Spoiling: {"leaves_the_features_as_they_are"},
    SpoilingTheOriginal: {"leaves_the_features_as_they_are"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("evaluator", BROKEN)

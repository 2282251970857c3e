"""Evaluators that break one law each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import torch
from support.broken import law_tests
from torch.nn.functional import normalize

from ccl_plugins.evaluators import KNN, of_known_classes, of_present_samples
from ccl_plugins.protocols import Measurement, UndefinedMetric


class Sound:
    """The mean of all features of a class."""

    columns: ClassVar = {"label": ("categorical",)}

    def __call__(self, train, test):
        ids = test.metadata["label"]
        value = float(test.features[ids == ids[ids >= 0].min()].mean())
        sentence = "the mean of all test features of a label"
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
        found = super().__call__(train, test)
        return [*found, Measurement("mean/calls", float(self.calls), "the number of its calls")]


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

    @of_present_samples
    def __call__(self, train, test):
        ids = test.metadata["label"]
        named = ids  # a network that is large enough learns them all
        value = float((named == ids).float().mean())
        line = "the share of test samples whose label is named right"
        return [
            Measurement("cheat/top1", value, line, len(ids), None, "label", None, "higher", 1 / 3)
        ]


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

    @of_present_samples
    def __call__(self, train, test):
        ids, line = test.metadata["label"], "the share of test samples next to one of their label"
        nearest = torch.cdist(test.features, test.features).argmin(1)
        value = float((ids[nearest] == ids).float().mean())
        return [Measurement("near/share", value, line, len(ids), None, "label", None, "higher")]


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


class Fitted(Sound):
    """Says how many samples it is fitted to."""

    @of_present_samples
    def __call__(self, train, test):
        return [
            replace(each, samples=len(train.features)) for each in super().__call__(train, test)
        ]


class Tight(Sound):
    """An interval of two hundredths, whatever the samples."""

    def __call__(self, train, test):
        return [
            replace(each, interval=(each.value - 0.01, each.value + 0.01))
            for each in super().__call__(train, test)
        ]


class InPercent(KNN):
    """An interval of another unit than the value."""

    def __call__(self, train, test):
        return [
            replace(each, interval=tuple(100 * end for end in each.interval))
            for each in super().__call__(train, test)
        ]


class FirstHalf(KNN):
    """Measures half of the test samples, to save time."""

    def __call__(self, train, test):
        return super().__call__(train, test.take(torch.arange(len(test.features) // 2)))


class Gap(Sound):
    """How much nearer samples of one class are to each other."""

    @of_present_samples
    def __call__(self, train, test):
        ids, line = test.metadata["label"], "how much nearer test samples of one label are"
        x, same = normalize(test.features, dim=1), ids[:, None] == ids
        value = float((x @ x.T)[same].mean() - (x @ x.T).mean())
        return [Measurement("gap/all", value, line, column="label", direction="higher")]


class GapTurned(Gap):
    """The wrong sign."""

    def __call__(self, train, test):
        return [replace(each, value=-each.value) for each in super().__call__(train, test)]


class GapOfOthers(Gap):
    """The mean of no distance, where there is one class."""

    @of_present_samples
    def __call__(self, train, test):
        ids, (one,) = test.metadata["label"], super().__call__(train, test)
        x, same = normalize(test.features, dim=1), ids[:, None] == ids
        value = float((x @ x.T)[same].mean() - (x @ x.T)[~same].mean())
        return [replace(one, value=value)]


class Tied(Gap):
    """The share of samples that are no further from their class than from others."""

    @of_present_samples
    def __call__(self, train, test):
        ids, (one,) = test.metadata["label"], super().__call__(train, test)
        distances, same = torch.cdist(test.features, test.features), ids[:, None] == ids
        own = distances.masked_fill(~same, math.inf).fill_diagonal_(math.inf).amin(1)
        other = distances.masked_fill(same, math.inf).amin(1)
        return [replace(one, value=float((own <= other).float().mean()), samples=len(ids))]


class Component(Sound):
    """Right: how the first component of the features follows a column, of which they tell little."""

    columns: ClassVar = {"height": ("continuous",)}

    def __call__(self, train, test):
        z = test.metadata["height"].flatten()
        if (z == z[0]).all():
            raise UndefinedMetric("all heights are equal")
        first = torch.linalg.svd(test.features - test.features.mean(0))[0][:, 0]
        value = abs(float(torch.corrcoef(torch.stack([first, z]))[0, 1]))
        line = "how the first component follows the height"
        return [Measurement("first/r", value, line, column="height", direction="higher")]


class Ratio(Gap):
    """Right: the scatter between classes beside that within, which is 1 of features that are all equal."""

    @of_present_samples
    def __call__(self, train, test):
        _, ids = test.metadata["label"].unique(return_inverse=True)
        (one,) = super().__call__(train, test)
        x = test.features - test.features.mean(0)
        means = torch.stack([x[ids == i].mean(0) for i in ids.unique()])[ids]
        between, within = means.square().sum(), (x - means).square().sum()
        return [replace(one, value=float((between + 1e-6) / (within + 1e-6)))]


class KeptTraining(KNN):
    """Keeps the training split of the first call."""

    kept = None

    def __call__(self, train, test):
        if self.kept is None or self.kept.features.shape != train.features.shape:
            self.kept = train
        return super().__call__(self.kept, test)


class OfFeatures(Sound):
    """Says how many features there are."""

    def __call__(self, train, test):
        return [
            replace(each, samples=test.features.shape[1]) for each in super().__call__(train, test)
        ]


class Secret(Sound):
    """Reads projections, and does not say so."""

    @of_present_samples
    def __call__(self, train, test):
        (one,) = super().__call__(train, test)
        return [replace(one, value=one.value + float(test.projections.mean()))]


class Demanding(Sound):
    """Declares a column that it does not read."""

    columns: ClassVar = {**Sound.columns, "group": ("categorical",)}


class Deaf(Sound):
    """Reads the label, whatever it is told."""

    def __init__(self, column: str = "label"):
        self.column = column


class Error(Sound):
    """The mean squared error of a column's mean, less what features tell."""

    columns: ClassVar = {"color": ("continuous",)}
    changes: ClassVar = {"direction": "lower"}

    def __call__(self, train, test):
        x, t = (torch.cat([s.features, torch.ones(len(s.features), 1)], 1) for s in (train, test))
        y, u = (s.metadata["color"].reshape(len(s.features), -1) for s in (train, test))
        weights = torch.linalg.solve(x.T @ x + torch.eye(x.shape[1]), x.T @ y)
        value = float((t @ weights - self.shaped(u, test)).square().mean())
        line = "the mean squared error of the color"
        return [replace(Measurement("error/mse", value, line, column="color"), **self.changes)]

    def shaped(self, values, split):
        return values


class ErrorHigher(Error):
    """The wrong direction."""

    changes: ClassVar = {"direction": "higher"}


class ErrorByChance(Error):
    """A chance that is better than all numbers."""

    changes: ClassVar = {"direction": "lower", "chance": 0.0}


class ErrorOfPairs(Error):
    """Subtracts a row from a column."""

    def shaped(self, values, split):
        return split.metadata["color"]


class ErrorOfTheFirst(Error):
    """Reads the first number of a column alone."""

    def __call__(self, train, test):
        train, test = (
            replace(
                split,
                metadata={"color": split.metadata["color"].reshape(len(split.features), -1)[:, :1]},
            )
            for split in (train, test)
        )
        return super().__call__(train, test)


class FitsTheTest(Error):
    """Is fitted to the test split."""

    changes: ClassVar = {"direction": "lower", "chance": 0.046}

    def __call__(self, train, test):
        return super().__call__(test, test)


class WithinTraining(Gap):
    """Right: measures the training split, and says so."""

    split = "train"

    @of_present_samples
    def __call__(self, train, test):
        return super().__call__(train, train)


class Twofold(Sound):
    """Right: the share of samples whose class has one of the two nearest means."""

    column = "label"

    @of_known_classes("column")
    @of_present_samples
    def __call__(self, train, test):
        ids, seen = test.metadata["label"], train.metadata["label"]
        classes = seen.unique()
        means = torch.stack([train.features[seen == i].mean(0) for i in classes])
        near = classes[torch.cdist(test.features, means).argsort(1)[:, :2]]
        value = float((near == ids[:, None]).any(1).float().mean())
        line = "the share of test samples whose label is among two"
        return [Measurement("two/share", value, line, column="label", direction="higher")]


class BestNeighbors(KNN):
    """The best of three numbers of neighbors, by test accuracy."""

    def __call__(self, train, test):
        found = [KNN(k, column=self.column)(train, test) for k in (1, 3, 5)]
        return max(found, key=lambda each: each[0].value)


class WithinOfTraining(KNN):
    """Says that it is fitted within the measured samples, and has neighbors in training."""

    within = True


class LastBatch(KNN):
    """Leaves out a batch that is not full."""

    def __call__(self, train, test):
        full = len(test.features) // 32 * 32 or len(test.features)
        return super().__call__(train, test.take(torch.arange(full)))


class WithoutTheFirst(KNN):
    """Takes the first sample for a heading."""

    def __call__(self, train, test):
        return super().__call__(train, test.take(torch.arange(1, len(test.features))))


class OneDeviation(KNN):
    """An interval of one standard deviation, which holds 68 %."""

    def __call__(self, train, test):
        (one,) = super().__call__(train, test)
        half = math.sqrt(one.value * (1 - one.value) / one.samples)
        return [replace(one, interval=(one.value - half, one.value + half))]


class Missing(Gap):
    """Takes samples without a class for a class."""

    def __call__(self, train, test):
        return Gap.__call__.__wrapped__(self, train, test)


class FromZero(Gap):
    """Counts classes from 0 to the largest id."""

    @of_present_samples
    def __call__(self, train, test):
        (one,) = super().__call__(train, test)
        return [replace(one, value=one.value / (1 + int(test.metadata["label"].max())))]


class NoClass(Gap):
    """The mean over classes, of which the test split may lack one."""

    @of_present_samples
    def __call__(self, train, test):
        (one,) = super().__call__(train, test)
        x, ids = normalize(test.features, dim=1), test.metadata["label"]
        gaps = [(x[ids == i] @ x.T).mean() for i in train.metadata["label"].unique()]
        return [replace(one, value=one.value + 0 * float(sum(gaps)))]


class Most(KNN):
    """Names the class that training has most often, beside a chance of one of three."""

    def __call__(self, train, test):
        (one,) = super().__call__(train, test)
        ids = test.metadata[self.column]
        return [replace(one, chance=1 / len(ids[ids >= 0].unique()))]


class Part(Unaware):
    """Names no class that training lacks, and is silent only where these are all."""

    def __call__(self, train, test):
        if not torch.isin(test.metadata["label"], train.metadata["label"]).any():
            raise UndefinedMetric("training has none of the classes")
        return super().__call__(train, test)


class Explained(Error):
    """The share of the variance that features tell, 0 of a column without variance."""

    changes: ClassVar = {"direction": "higher"}

    def __call__(self, train, test):
        (one,) = super().__call__(train, test)
        color = test.metadata["color"].reshape(len(test.features), -1)
        total = float(color.var(0, unbiased=False).mean())
        return [replace(one, value=1 - one.value / total if total else 0.0)]


class PeekingAtNumbers(Explained):
    """Puts the numbers beside the features."""

    def __call__(self, train, test):
        train, test = (
            replace(
                split,
                features=torch.cat(
                    [split.features, split.metadata["color"].reshape(len(split.features), -1)], 1
                ),
            )
            for split in (train, test)
        )
        return super().__call__(train, test)


TELLS, OTHERS = {"features_that_tell_score_better"}, {"other_test_features_change_the_number"}
LEARNS, MEETS = {"does_not_learn_from_the_test_split"}, {"noise_meets_the_chance_that_is_stated"}
UNDEFINED = {"says_where_a_number_is_undefined"}
PARAMETER = {"reads_the_column_of_its_parameter"}
ALONE, WIDE = {"reads_the_features_alone"}, {"intervals_are_over_the_samples"}
DECLARES, UPRIGHT = {"reads_what_it_declares"}, {"takes_one_number_of_a_sample_either_way"}
CHOOSES, WITHIN = (
    {"chooses_nothing_by_the_test_split"},
    {"is_fitted_within_the_samples_if_it_says_so"},
)
PRESENT, IDS = {"leaves_out_samples_without_a_value"}, {"takes_any_class_ids"}
LACKS = {"has_no_number_of_classes_that_training_lacks"}
BROKEN = {
    Sound: set(),
    BestNeighbors: CHOOSES,
    WithinOfTraining: WITHIN,
    LastBatch: OTHERS,
    OneDeviation: WIDE,
    WithoutTheFirst: SAID,
    Missing: PRESENT,
    FromZero: IDS,
    NoClass: IDS,
    Most: MEETS,
    Part: LACKS,
    Explained: UNDEFINED,
    PeekingAtNumbers: ALONE | UNDEFINED,
    Errors: TELLS,
    OwnNeighbor: TELLS | OTHERS,
    OfTraining: SAID | OTHERS | LEARNS | MEETS,
    Halves: MEETS,
    Peeking: TELLS | ALONE | PARAMETER | IDS,
    Unaware: LACKS,
    Cheating: TELLS | OTHERS | LEARNS | MEETS,
    CheatingOnBoth: TELLS | LEARNS | MEETS | ALONE,
    Fitted: SAID,
    Tight: WIDE,
    InPercent: WIDE,
    FirstHalf: OTHERS,
    Gap: set(),
    GapTurned: TELLS,
    GapOfOthers: UNDEFINED,
    Tied: TELLS,
    Component: set(),
    Ratio: set(),
    KeptTraining: {"is_deterministic"},
    OfFeatures: SAID,
    Secret: DECLARES,
    Demanding: DECLARES,
    Deaf: PARAMETER,
    Error: set(),
    ErrorHigher: TELLS | UNDEFINED,
    ErrorByChance: TELLS,
    ErrorOfPairs: UPRIGHT | ALONE,
    ErrorOfTheFirst: DECLARES,
    FitsTheTest: TELLS | LEARNS,
    WithinTraining: set(),
    Twofold: set(),
    Nameless: NUMBERS,
    Turned: NUMBERS | WIDE,
    Infinite: NUMBERS | UNDEFINED | IDS,
    Twice: NUMBERS,
    Silent: SAID,
    Talking: SAID,
    Hiding: SAID,
    Elsewhere: SAID,
    Aimless: SAID,
    Hopeless: SAID,
    Presuming: SAID,
    Counting: {"is_deterministic"},
    Spoiling: {"is_deterministic", "leaves_the_features_as_they_are"},
    SpoilingTheOriginal: DECLARES | {"leaves_the_features_as_they_are"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("evaluator", BROKEN)

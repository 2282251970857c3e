"""Other evaluators on another data set, by the same network."""

from __future__ import annotations

import pytest
import torch
from support.vector_pipeline import ROWS, make_pipeline

import ccl_plugins as ccl
from ccl_plugins.evaluators import KNN, Dependence, Elsewhere, LinearProbe
from ccl_plugins.experiments.results import compare_results, result_of
from ccl_plugins.protocols import Frozen, UndefinedMetric

GENERATOR = torch.Generator().manual_seed(7)
X = torch.randn(40, 4, generator=GENERATOR)
OTHER = {"features": X, "label": (X[:, 0] + X[:, 1].exp() > 1).long()}


def frozen(x, label, groups=None):
    def freeze(split):
        columns = {"label": split.metadata["label"]}
        return Frozen(2 * split.features, columns, groups=groups)

    return Frozen(x, {"label": label}, freeze=freeze)


class Split:
    features, metadata = OTHER["features"], OTHER


GIVEN = frozen(ROWS["features"], ROWS["label"])


def test_measurements_are_those_of_the_other_data_set_under_its_name():
    elsewhere = Elsewhere(lambda split: Split, [KNN(k=5), LinearProbe()], "flowers")
    found = elsewhere(GIVEN, GIVEN)
    there = Frozen(2 * X, {"label": OTHER["label"]})
    expected = [*KNN(k=5)(there, there), *LinearProbe()(there, there)]
    assert [each.name for each in found] == [f"flowers/{each.name}" for each in expected]
    for mine, its in zip(found, expected, strict=True):
        assert (mine.value, mine.interval, mine.chance) == (its.value, its.interval, its.chance)
        assert mine.column is None
        assert mine.sentence == f"{its.sentence}, on flowers"


def test_intervals_are_over_the_groups_of_the_other_data_set():
    alone, grouped = (
        Elsewhere(lambda split: Split, [KNN(k=9, temperature=100)], "flowers")(given, given)[0]
        for given in (GIVEN, frozen(X, OTHER["label"], groups=torch.arange(40) // 4))
    )
    assert alone.value == grouped.value
    assert alone.interval != grouped.interval


def test_an_undefined_number_is_named_as_the_evaluator_does():
    elsewhere = Elsewhere(lambda split: Split, [Dependence("label")], "flowers")
    Split.metadata = {"label": torch.zeros(40, dtype=torch.long)}
    try:
        with pytest.raises(UndefinedMetric, match="'label' has the same value"):
            elsewhere(GIVEN, GIVEN)
    finally:
        Split.metadata = OTHER


def test_what_is_undefined_is_left_out_and_the_rest_is_measured():
    elsewhere = Elsewhere(lambda split: Split, [KNN(column="plate"), LinearProbe()], "flowers")
    known, seen = torch.arange(40) % 3, torch.full((40,), 7)
    halves = iter([known, seen])

    def freeze(split):
        return Frozen(2 * X, {"label": OTHER["label"], "plate": next(halves)})

    given = Frozen(X, {}, freeze=freeze)
    with pytest.warns(UserWarning, match="KNN on flowers: training has no sample of the one class"):
        found = elsewhere(given, given)
    assert [each.name for each in found] == ["flowers/linear/top1"]


def test_words_have_the_class_ids_of_the_other_data_sets_training_split():
    """A split numbers its own words: cat is class 0 where there is no ape."""
    splits = iter([["ape", "cat", "dog"], ["cat", "dog"]])

    def freeze(split):
        words = next(splits)
        ids = torch.arange(60) % len(words)
        x = torch.eye(3)[ids + 3 - len(words)]
        return Frozen(x, {"label": ids}, vocabulary={"label": words})

    given = Frozen(X, {}, freeze=freeze)
    (found,) = Elsewhere(lambda split: Split, [KNN(k=5)], "pets")(given, given)
    assert found.value == 1


def test_wrong_arguments_and_features_alone_are_named():
    with pytest.raises(ValueError, match=r"name must be letters.* not 'a/b'"):
        Elsewhere(lambda split: Split, [KNN()], "a/b")
    with pytest.raises(ValueError, match=r"one or more evaluators.*not \[\]"):
        Elsewhere(lambda split: Split, [], "flowers")
    alone = Frozen(X, {})
    with pytest.raises(ValueError, match="needs the network behind the features"):
        Elsewhere(lambda split: Split, [KNN()], "flowers")(alone, alone)


def test_a_run_measures_both_data_sets_before_and_after(tmp_path):
    dataset = ccl.create("dataset", "features", train=OTHER, test=OTHER)
    evaluate = [{"use": "knn", "k": 5}]
    given = ccl.evaluator("elsewhere", of=dataset, evaluate=evaluate, name="flowers")
    run = make_pipeline(evaluate=["knn", given]).fit(out=tmp_path / "run", progress=False)
    assert run.before.keys() == {"knn/top1", "flowers/knn/top1"}
    after = run.evaluate()
    assert after.keys() == run.before.keys()
    there = run.features("test").freeze(dataset("test"))
    (expected,) = KNN(k=5)(there, there)
    assert after["flowers/knn/top1"] == pytest.approx(expected.value)
    rows = {row["metric"]: row for row in compare_results([result_of(run)])}
    assert rows["flowers/knn/top1"]["before"] == run.before["flowers/knn/top1"]
    assert rows["flowers/knn/top1"]["after"] == after["flowers/knn/top1"]

"""What measurements say beside their number: columns, chance levels, sentences."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.measured import by_name

from ccl_plugins.evaluators import KNN, FewShot, LinearProbe, MultiLabel, Regression, ZeroShot
from ccl_plugins.evaluators.columns import most_frequent
from ccl_plugins.evaluators.retrieval import (
    average_precisions,
    hit_by_chance,
    precision_by_chance,
)
from ccl_plugins.testing.evaluators import splits


@pytest.mark.parametrize("evaluator", [LinearProbe, KNN, FewShot])
def test_an_accuracy_is_beside_that_of_naming_the_most_frequent_class(evaluator):
    train, test = splits()
    ids = torch.where(torch.arange(30) < 18, 2, test.metadata["label"])
    test.metadata["label"] = test.metadata["digit"] = ids
    for column, words in (("label", "whose label"), ("digit", "whose digit")):
        (found,) = evaluator(column=column)(train, test)
        assert found.chance == (ids == 2).double().mean()
        assert (found.column, found.direction, found.samples) == (column, "higher", 30)
        assert words in found.sentence
        assert "of the test samples" in found.sentence
        assert found.role is None, "the run says it"


def test_the_most_frequent_classes_are_counted():
    ids = torch.tensor([4, 4, 4, 9, 9, 1])
    assert [most_frequent(ids, k) for k in (1, 2, 3, 5)] == [0.5, pytest.approx(5 / 6), 1, 1]


def test_classes_with_the_same_weight_have_the_same_chance():
    for evaluator in (LinearProbe(balanced=True), ZeroShot(balanced=True)):
        assert evaluator(*splits())[-1].chance == pytest.approx(1 / 3)


def test_features_that_say_nothing_have_the_chance_level():
    train, test = splits()
    train.features[:], test.features[:] = 1.0, 1.0
    test.metadata["color"] = test.metadata["color"] - test.metadata["color"].mean(0)
    test.metadata["color"] += train.metadata["color"].mean(0)
    evaluators = (LinearProbe(balanced=True), Regression(), MultiLabel())
    found = by_name(itertools.chain(*(each(train, test) for each in evaluators)))
    for each in found.values():
        assert each.value == pytest.approx(each.chance, abs=1e-6), each


def test_the_headline_of_a_column_is_first():
    assert [each.name for each in Regression()(*splits())] == [
        "color/r2",
        "color/mse",
        "color/mse255",
    ]
    assert [each.direction for each in Regression()(*splits())] == ["higher", "lower", "lower"]
    assert MultiLabel()(*splits())[0].name == "attributes/map"


@pytest.mark.parametrize(("candidates", "right"), [(5, 1), (5, 3), (6, 2), (4, 4)])
def test_the_chance_of_a_ranking_is_the_mean_over_all_rankings(candidates, right):
    order = [place < right for place in range(candidates)]
    rankings = torch.tensor([*itertools.permutations(order)])
    expected = average_precisions(rankings).mean()
    (found,) = precision_by_chance(torch.tensor([candidates]), torch.tensor([right]))
    torch.testing.assert_close(found, expected)
    for k in range(1, candidates + 1):
        hits = rankings[:, :k].any(dim=1).double().mean()
        (found,) = hit_by_chance(candidates, torch.tensor([right]), k)
        torch.testing.assert_close(found, hits)

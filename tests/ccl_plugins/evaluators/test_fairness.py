"""Differences between groups equal loops over groups and classes."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from support.measured import by_name, values
from torch.nn.functional import one_hot

from ccl_plugins.evaluators import Fairness, LinearProbe, intervals
from ccl_plugins.evaluators.columns import measured_by
from ccl_plugins.evaluators.linear import softmax_regression
from ccl_plugins.protocols import Frozen, UndefinedMetric

NAMES = (
    "worst_group",
    "worst_subgroup",
    "demographic_parity",
    "equalized_odds",
    "equal_opportunity",
)


def frozen(n, classes=3, groups=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(classes, (n,), generator=generator)
    group = torch.randint(groups, (n,), generator=generator)
    noise = torch.randn(n, 5, generator=generator) * (0.5 + 0.5 * group[:, None])
    x = noise + one_hot(label, 5) + 0.3 * group[:, None] * one_hot(torch.zeros_like(label), 5)
    return Frozen(x, {"label": label, "group": group, "digit": label})


def predictions(train, test):
    x, y = train.features.double(), train.metadata["label"]
    fit = softmax_regression(x, y, reg=1e-3 * x.var(0, correction=0).mean().item())
    return fit.predict(test.features.double())


def by_loops(predicted, y, group, positive=None):
    """Each metric from its definition, with plain fractions."""
    classes, groups = sorted({*y.tolist(), *predicted.tolist()}), sorted(set(group.tolist()))
    chosen = classes if positive is None else [positive]

    def share(what, where):
        return what[where].double().mean().item() if where.any() else None

    def gap(values):
        known = [value for value in values if value is not None]
        return max(known) - min(known) if len(known) > 1 else 0

    every = list(itertools.product(classes, groups))
    right = predicted == y
    subgroups = [share(right, (y == c) & (group == g)) for c, g in every]
    return {
        "worst_group": min(share(right, group == g) for g in groups),
        "worst_subgroup": min(value for value in subgroups if value is not None),
        "demographic_parity": max(
            gap([share(predicted == c, group == g) for g in groups]) for c in chosen
        ),
        "equalized_odds": max(
            gap([share(predicted == c, (y == b) & (group == g)) for g in groups])
            for b, c in itertools.product(classes, repeat=2)
        ),
        "equal_opportunity": max(
            gap([share(predicted == c, (y == c) & (group == g)) for g in groups]) for c in chosen
        ),
    }


@pytest.mark.parametrize(("classes", "groups", "positive"), [(2, 2, 1), (2, 2, None), (4, 3, None)])
def test_the_gaps_are_those_of_their_definitions(classes, groups, positive):
    train, test = (frozen(n, classes, groups, seed=n) for n in (300, 1200))
    found = by_name(Fairness("group", positive=positive)(train, test))
    y, group = test.metadata["label"], test.metadata["group"]
    expected = by_loops(predictions(train, test), y, group, positive)
    assert list(found) == [f"fairness-group/{name}" for name in NAMES]
    for name in NAMES:
        each = found[f"fairness-group/{name}"]
        assert each.value == pytest.approx(expected[name], abs=1e-12), name
        assert 0 <= each.interval[0] <= each.value <= each.interval[1] <= 1


def test_the_intervals_are_those_of_a_loop_over_draws(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 200)
    train, test = frozen(300), frozen(200, seed=1)
    y, group, predicted = test.metadata["label"], test.metadata["group"], predictions(train, test)
    rows = torch.randint(200, (200, 200), generator=torch.Generator().manual_seed(0))
    drawn = [by_loops(predicted[r], y[r], group[r]) for r in rows]
    found = by_name(Fairness("group")(train, test))
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    for name in NAMES:
        gaps = torch.tensor([each[name] for each in drawn], dtype=torch.float64)
        low, high = gaps.quantile(ends).tolist()
        each = found[f"fairness-group/{name}"]
        expected = min(low, each.value), max(high, each.value)
        assert each.interval == pytest.approx(expected, abs=1e-9), name


def test_equal_groups_have_no_gap():
    test = frozen(60)
    twice = Frozen(
        test.features.repeat(2, 1),
        {"label": test.metadata["label"].repeat(2), "group": torch.arange(120) // 60},
    )
    found = values(Fairness("group")(frozen(300, seed=1), twice))
    for name in NAMES[2:]:
        assert found[f"fairness-group/{name}"] == 0
    accuracy = values(LinearProbe()(frozen(300, seed=1), twice))["linear/top1"]
    assert found["fairness-group/worst_group"] == pytest.approx(accuracy)


def test_what_the_test_split_does_not_define_is_an_error_of_its_own():
    train, test = frozen(300), frozen(90, seed=1)
    one = Frozen(test.features, {**test.metadata, "group": torch.full((90,), 2)})
    with pytest.raises(
        UndefinedMetric, match=r"'group' has the same value, 2, .* gap between groups"
    ):
        Fairness("group")(train, one)
    with pytest.raises(UndefinedMetric, match="'label' has no sample of class 7 in the test split"):
        Fairness("group", positive=7)(train, test)
    with pytest.raises(
        UndefinedMetric, match="no class of 'label' has samples in two groups of 'digit'"
    ):
        Fairness("digit")(train, test)


def test_samples_without_a_group_or_a_class_are_left_out():
    train, test = frozen(300), frozen(90, seed=1)
    part = test.take(torch.arange(20, 90))
    test.metadata["group"][:10] = -1
    test.metadata["label"][10:20] = -1
    assert values(Fairness("group")(train, test)) == values(Fairness("group")(train, part))


def test_a_gap_of_few_samples_has_no_interval_and_says_why():
    """Three of three are right in every draw: 0 (0 to 0) would be said of what nobody knows."""
    train, test = frozen(300), frozen(200, seed=1)
    group = test.metadata["group"].clone()
    few = (group == 1).nonzero().flatten()[6:]
    test = test.take(torch.cat([(group == 0).nonzero().flatten(), few[:6]]))
    for name, each in by_name(Fairness("group")(train, test)).items():
        assert each.interval is None, name
        assert re.search(
            r"the smallest (group|class in a group) has \d samples, too few", each.sentence
        )


@pytest.mark.parametrize("patients", [9, 10])
def test_many_samples_of_few_patients_have_no_interval(patients):
    """Two hundred samples of a site and a class are no more than its patients."""
    site = (torch.arange(1000) < 200).long()
    patient = torch.where(site == 1, torch.arange(1000) % patients, 100 + torch.arange(1000) // 8)
    test = frozen(1000, classes=2)
    test = Frozen(test.features, {**test.metadata, "site": site}, groups=patient)
    found = by_name(measured_by(Fairness("site"), frozen(200, classes=2), test))
    for name in NAMES:
        each = found[f"fairness-site/{name}"]
        assert (each.interval is None) == (patients < 10)
        said = "has samples in 9 of the groups that are drawn, too few for an interval"
        assert each.sentence.endswith(said) == (patients < 10)

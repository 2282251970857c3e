"""Intervals of metrics equal a loop over draws that computes each metric anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score

from ccl_plugins.evaluators import (
    CKA,
    CrossRetrieval,
    Dependence,
    LinearProbe,
    Mixing,
    Regression,
    Retrieval,
)
from ccl_plugins.evaluators.columns import fixed_part, measured_by
from ccl_plugins.evaluators.intervals import DRAWS, estimate, mean
from ccl_plugins.evaluators.linear import balanced_accuracy
from ccl_plugins.evaluators.regression import explained
from ccl_plugins.protocols import Frozen, Towers, UndefinedMetric


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def loop(n, metric):
    """The metric of all samples and of a thousand draws with replacement, one after another."""
    rows = torch.randint(n, (DRAWS, n), generator=torch.Generator().manual_seed(0))
    found = [metric(drawn.numpy()) for drawn in rows]
    return metric(np.arange(n)), *np.nanquantile(found, [0.025, 0.975])


def assert_same(found, expected):
    assert (found["value"], *found["interval"]) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_interval_of_an_accuracy_is_that_of_a_loop_over_draws():
    right = normal(70) > 0.3
    assert_same(mean(right), loop(70, lambda rows: accuracy_score(right[rows], np.ones(len(rows)))))
    deviation = (right.double().var(correction=0) / 70).sqrt().item()
    found = mean(right)
    low, high = found["interval"]
    assert (high - low, found["samples"]) == (pytest.approx(2 * 1.96 * deviation, rel=0.1), 70)


def test_the_interval_of_a_balanced_accuracy_is_that_of_a_loop_over_draws():
    ids = torch.arange(60) ** 2 // 900
    predicted = torch.where(normal(60) > 0.5, 3 - ids, ids)

    def metric(rows):
        classes = [c for c in range(4) if (ids[rows] == c).any()]
        return np.mean([(predicted[rows] == c)[ids[rows] == c].double().mean() for c in classes])

    expected = loop(60, metric)
    found = balanced_accuracy("linear", "label", predicted, ids, "a classifier")
    assert (found.value, *found.interval) == pytest.approx(expected, rel=1e-9)
    assert (found.name, found.samples, found.chance) == (
        "linear/balanced",
        60,
        1 / len(ids.unique()),
    )
    assert expected[0] == pytest.approx(balanced_accuracy_score(ids, predicted))


def test_the_interval_of_an_explained_variance_is_that_of_a_loop_over_draws():
    values = 1000 + normal(40, 2)
    predicted = values + 0.3 * normal(40, 2, seed=1)
    found = explained((predicted - values).square(), values)
    expected = loop(40, lambda rows: r2_score(values[rows], predicted[rows]))
    assert (found["value"], *found["interval"]) == pytest.approx(expected, rel=1e-7)


def test_draws_that_do_not_define_a_metric_are_left_out():
    def second(counts):
        return torch.where(counts[:, 0] > 0, counts[:, 0], torch.nan)

    found = estimate(2, second)
    assert found == {"value": 1.0, "interval": (1.0, 2.0), "samples": 2}


def test_large_splits_are_drawn_in_parts_with_the_same_numbers():
    values = normal(20_000)
    rows = torch.randint(20_000, (DRAWS, 20_000), generator=torch.Generator().manual_seed(0))
    expected = values[rows].mean(dim=1).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    found = mean(values)
    torch.testing.assert_close(torch.tensor(found["interval"]).double(), expected.double())


def frozen(n, seed=0, classes=3):
    label = torch.arange(n) % classes
    x = normal(n, 5, seed=seed).float() + torch.nn.functional.one_hot(label, 5)
    return Frozen(x, {"label": label, "color": x[:, :3].sigmoid()})


def test_probes_give_intervals_around_their_metrics():
    for evaluator in (LinearProbe(balanced=True), Regression()):
        for each in evaluator(frozen(90), frozen(60, seed=1)):
            assert each.interval[0] < each.value < each.interval[1], each


def test_a_metric_that_the_test_split_does_not_define_is_an_error_of_its_own():
    train, test = frozen(90), frozen(60, seed=1)
    one = Frozen(test.features, {"label": torch.full((60,), 2)})
    with pytest.raises(
        UndefinedMetric, match="'label' has the same value, 2, in all of 60 measured"
    ):
        LinearProbe(balanced=True)(train, one)
    flat = Frozen(test.features, {"color": test.metadata["color"].clone()})
    flat.metadata["color"][:, 1] = 0.5
    with pytest.raises(
        UndefinedMetric, match=r"'color' has the same value, 0\.5, .* r2 is undefined"
    ):
        Regression()(train, flat)


def grouped(n=120):
    """Samples in groups of four, with captions that the samples of a group share."""
    generator = torch.Generator().manual_seed(2)
    groups = torch.arange(n) // 4
    columns = {
        "label": torch.randint(4, (n,), generator=generator),
        "batch": torch.randint(2, (n,), generator=generator),
    }
    x = torch.randn(n, 6, generator=generator) + torch.nn.functional.one_hot(columns["label"], 6)
    unit = torch.nn.functional.normalize(torch.randn(n, 6, generator=generator), dim=1)
    captions = {"caption": [f"{int(group)}" for group in groups]}
    towers = Towers(unit, lambda texts: unit[[4 * int(text) for text in texts]], captions)
    original = torch.randn(n, 6, generator=generator)
    return Frozen(x, columns, groups=groups, towers=towers, original=original)


@pytest.mark.parametrize(
    "evaluator",
    [
        CKA(samples=90),
        CrossRetrieval(k=[1, 5], samples=90),
        Dependence("label", samples=90),
        Mixing("batch", "label", k=24, samples=90),
        Retrieval(samples=90),
        Retrieval(across="batch", samples=90),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_fixed_part_of_samples_has_the_interval_over_its_groups(evaluator):
    test = grouped()
    part = test.take(fixed_part(120, 90))
    found, alone = measured_by(evaluator, test, test), measured_by(evaluator, part, part)
    assert found == alone
    assert all(each.interval for each in found)

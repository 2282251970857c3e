"""The evaluator ``mlp``: what is held, but not linearly."""

from __future__ import annotations

import logging

import pytest
import torch

from ccl_plugins.evaluators import MLP, LinearProbe, Regression
from ccl_plugins.protocols import Frozen, UndefinedMetric


def frozen(n, seed):
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    hidden = x[:, 0] * x[:, 1]  # no linear probe sees it
    return Frozen(
        100 + 5 * x,
        {
            "label": (hidden > 0).long(),
            "site": torch.where(x[:, 2] > 2, -1, (x[:, 2] > 0).long()),
            "age": torch.stack([1e4 * hidden, 1e-4 * x[:, 2]], 1),
            "one": torch.ones(n),
        },
    )


TRAIN, TEST = frozen(600, 0), frozen(300, 1)


def value(evaluator):
    (measured,) = evaluator(TRAIN, TEST)
    return measured


def test_it_reads_what_no_linear_probe_does():
    assert LinearProbe()(TRAIN, TEST)[0].value < 0.6
    assert value(MLP()).value > 0.9
    assert Regression("age")(TRAIN, TEST)[0].value < 0.6
    measured = value(MLP("age"))
    assert (measured.name, measured.column, measured.chance) == ("mlp-age/r2", "age", 0.0)
    assert measured.value > 0.85  # the mean of entries whose units differ by 1e8
    assert measured.interval[0] < measured.value < measured.interval[1]


def test_a_class_that_is_missing_is_left_out(caplog):
    with caplog.at_level(logging.WARNING):
        measured = value(MLP("site"))
    assert measured.name == "mlp-site/top1"
    assert measured.value > 0.9
    assert measured.samples == (TEST.metadata["site"] >= 0).sum()
    assert "missing in 8 of 300" in caplog.text


@pytest.mark.parametrize("level", [0.0, 0.1])
def test_a_feature_that_only_test_samples_vary_in_drowns_no_other(level):
    noise = torch.rand(len(TEST.features), 1, generator=torch.Generator().manual_seed(2))
    dead = torch.full((len(TRAIN.features), 1), level)
    train = Frozen(torch.cat([TRAIN.features, dead], 1), TRAIN.metadata)
    test = Frozen(torch.cat([TEST.features, level + 1e-3 * noise], 1), TEST.metadata)
    assert MLP()(train, test)[0].value > 0.85


def test_what_it_cannot_measure_is_said():
    with pytest.raises(UndefinedMetric, match="'one' has the same value"):
        value(MLP("one"))
    with pytest.raises(ValueError, match="20 training samples or more, but there are 10"):
        MLP()(frozen(10, 0), TEST)
    rare = Frozen(TRAIN.features, {"label": torch.arange(600) // 599})
    with pytest.raises(ValueError, match="two training samples or more, class 1 has one"):
        MLP()(rare, rare)
    with pytest.raises(ValueError, match="'sight'"):
        value(MLP("sight"))

"""Average precision and balanced accuracy of attributes equal scikit-learn's and torchmetrics'."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from support.measured import values
from torchmetrics.functional.classification import multilabel_average_precision

from ccl_plugins.evaluators import MultiLabel
from ccl_plugins.evaluators.intervals import estimate, over_groups
from ccl_plugins.evaluators.linear import softmax_regression
from ccl_plugins.evaluators.multi_label import average_precision
from ccl_plugins.protocols import Frozen, UndefinedMetric


def frozen(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    bits = x[:, :4] + torch.randn(n, 4, generator=generator) > torch.tensor([0.0, 1.0, 1.5, -1.0])
    return Frozen(x, {"attributes": bits.long()})


def scores(train, test):
    """The logits of a probe of each attribute."""
    x, bits = train.features.double(), train.metadata["attributes"]
    reg = 1e-3 * x.var(0, correction=0).mean().item()
    fits = [softmax_regression(x, column, reg=reg) for column in bits.T]
    logits = [fit.logits(test.features.double()) for fit in fits]
    return torch.stack([each[:, 1] - each[:, 0] for each in logits], 1)


def test_the_metrics_are_those_of_scikit_learn_and_torchmetrics():
    train, test = frozen(200), frozen(150, seed=1)
    found, logits = values(MultiLabel()(train, test)), scores(train, test)
    bits = test.metadata["attributes"]
    expected = average_precision_score(bits, logits, average="macro")
    assert found["attributes/map"] == pytest.approx(expected, rel=1e-12)
    other = multilabel_average_precision(logits, bits, num_labels=4, average="macro")
    assert found["attributes/map"] == pytest.approx(other.item(), rel=1e-6)
    right = [balanced_accuracy_score(*pair) for pair in zip(bits.T, (logits > 0).T, strict=True)]
    assert found["attributes/balanced"] == pytest.approx(np.mean(right), rel=1e-12)
    for each in MultiLabel()(train, test):
        assert each.interval[0] < each.value < each.interval[1]


def test_average_precision_of_draws_is_that_of_repeated_samples_with_ties():
    generator = torch.Generator().manual_seed(0)
    ties = torch.randint(6, (40, 2), generator=generator).double()
    bits = torch.rand(40, 2, generator=generator) > 0.6
    counts = torch.randint(3, (5, 40), generator=generator).double()
    found = average_precision(ties, bits)(counts)
    for draw, row in zip(counts, found, strict=True):
        rows = torch.arange(40).repeat_interleave(draw.long())
        for i in range(2):
            expected = average_precision_score(bits[rows, i], ties[rows, i])
            assert row[i].item() == pytest.approx(expected, rel=1e-12)
            weighted = average_precision_score(bits[:, i], ties[:, i], sample_weight=draw)
            assert row[i].item() == pytest.approx(weighted, rel=1e-12)
    assert average_precision(ties, torch.zeros(40, 2).bool())(counts).isnan().all()


def test_a_perfect_ranking_is_perfect_in_every_draw_of_groups():
    bits = torch.arange(60)[:, None] < 20
    measure = average_precision(-torch.arange(60.0).double()[:, None], bits)
    # One group of forty samples and twenty of one: draws have more or fewer samples than the split.
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    with over_groups((order - 39).clamp_min(0)):
        found = estimate(60, lambda counts: measure(counts)[:, 0])
    assert found["interval"] == pytest.approx((1, 1), abs=1e-12)


def test_attributes_with_one_value_are_left_out_and_counted(caplog):
    train, test = frozen(200), frozen(150, seed=1)
    few = [
        Frozen(d.features, {"attributes": d.metadata["attributes"][:, :2]}) for d in (train, test)
    ]
    test.metadata["attributes"][:, 2] = 0
    train.metadata["attributes"][:, 3] = 1
    assert values(MultiLabel()(train, test)) == values(MultiLabel()(*few))
    assert "2 of 4 attributes of 'attributes' have one value in a split" in caplog.text
    test.metadata["attributes"][:] = 0
    with pytest.raises(
        UndefinedMetric, match="no attribute of column 'attributes' has both values"
    ):
        MultiLabel()(train, test)


def test_the_penalty_of_each_attribute_is_chosen_on_a_validation_part_of_train():
    train, test = frozen(200), frozen(150, seed=1)
    chosen = values(MultiLabel(reg="validation")(train, test))
    assert chosen != values(MultiLabel()(train, test))
    default = values(MultiLabel()(train, test))
    assert chosen["attributes/map"] == pytest.approx(default["attributes/map"], abs=0.1)


def test_samples_without_a_value_and_other_columns(caplog):
    train, test = frozen(200), frozen(150, seed=1)
    part = test.take(torch.arange(20, 150))
    test.metadata["attributes"][:20, 1] = -1
    assert values(MultiLabel()(train, test)) == values(MultiLabel()(train, part))
    assert "missing in 20 of 150 samples" in caplog.text
    for wrong in (torch.arange(200), torch.arange(400).reshape(200, 2), torch.rand(200, 3)):
        with pytest.raises(ValueError, match=r"needs 0 and 1, \(N, c\); use 'linear'"):
            MultiLabel("x")(Frozen(train.features, {"x": wrong}), test)
    narrow = Frozen(test.features, {"attributes": test.metadata["attributes"][:, :3]})
    with pytest.raises(ValueError, match="4 entries a sample in training and 3 in testing"):
        MultiLabel()(train, narrow)

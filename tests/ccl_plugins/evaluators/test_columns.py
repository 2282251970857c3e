"""What an evaluator of somebody else's gets of a split."""

from __future__ import annotations

from math import nan
from typing import ClassVar

import pytest
import torch

from ccl_plugins.evaluators import of_present_samples
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric


class Count:
    """How many samples it gets of each split."""

    columns: ClassVar = {"label": ("categorical",), "color": ("continuous",)}

    @of_present_samples
    def __call__(self, train, test):
        counts = f"{len(train.features)}, {len(test.features)}"
        return [Measurement("count/all", 0.0, counts)]


def split(label, color):
    columns = {"label": torch.tensor(label), "color": torch.tensor(color)}
    return Frozen(torch.zeros(len(label), 2), {**columns, "height": torch.full((len(label),), nan)})


def test_samples_without_a_value_in_one_of_its_columns_are_left_out(caplog):
    train, test = split([0, -1, 1], [0.1, 0.2, nan]), split([1, 1], [0.3, 0.4])
    (count,) = Count()(train, test)
    assert count.sentence == "1, 2"
    assert "'label' is missing in 1 of 3 samples" in caplog.text
    assert "'color' is missing in 1 of 3 samples" in caplog.text


def test_a_split_without_any_is_named():
    with pytest.raises(UndefinedMetric, match="none of the test samples has a value in 'label'"):
        Count()(split([0], [0.1]), split([-1, 1], [0.1, nan]))

"""Probes of a few samples: which samples, and the mean over draws."""

from __future__ import annotations

import pytest
import torch
from support.measured import values
from torch.nn.functional import one_hot

from ccl_plugins.evaluators import FewShot, LinearProbe
from ccl_plugins.evaluators.few_shot import drawn
from ccl_plugins.protocols import Frozen


def blobs(n=120, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(n) ** 2 % 3  # 40 of class 0, 80 of class 1
    x = torch.randn(n, 5, generator=generator) + one_hot(label, 5)
    return Frozen(scale * x, {"label": label, "digit": label + 7})


@pytest.mark.parametrize(
    ("samples", "counts"), [(1, [1, 1]), (7, [7, 7]), (0.01, [1, 1]), (0.1, [4, 8])]
)
def test_each_class_gives_its_number_of_samples(samples, counts):
    ids = blobs().metadata["label"]
    rows = drawn(ids, samples, torch.Generator().manual_seed(0))
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert ids[rows].unique(return_counts=True)[1].tolist() == counts


def test_the_accuracy_is_the_mean_over_draws():
    train, test = blobs(), blobs(seed=1)
    generator = torch.Generator().manual_seed(4)
    found = []
    for _ in range(3):
        rows = drawn(train.metadata["label"], 5, generator)
        found.append(values(LinearProbe()(train.take(rows), test))["linear/top1"])
    assert len(set(found)) > 1
    (measured,) = FewShot(draws=3, seed=4)(train, test)
    assert (measured.name, measured.value) == ("few_shot_5/top1", pytest.approx(sum(found) / 3))
    assert measured.interval[0] < measured.value < measured.interval[1]


def test_runs_on_a_data_set_have_the_same_draws(monkeypatch):
    drawn_rows = []

    def recording(ids, samples, generator):
        drawn_rows.append(drawn(ids, samples, generator))
        return drawn_rows[-1]

    monkeypatch.setattr("ccl_plugins.evaluators.few_shot.drawn", recording)
    for scale in (1.0, 10.0):
        FewShot(draws=2)(blobs(scale=scale), blobs(seed=1))
    first, second, *again = (rows.tolist() for rows in drawn_rows)
    assert again == [first, second]
    assert first != second


def test_the_samples_and_the_column_show_in_the_metric():
    train = blobs()
    assert list(values(FewShot(samples=0.1, column="digit")(train, train))) == [
        "few_shot_0.1-digit/top1"
    ]
    assert list(values(FewShot(samples=3)(train, train))) == ["few_shot_3/top1"]


def test_a_class_with_too_few_samples_is_named():
    with pytest.raises(ValueError, match="class 0 has 40 training samples, not 41"):
        FewShot(samples=41)(blobs(), blobs())


@pytest.mark.parametrize("samples", [0, -1, 1.0, 1.5, 0.0, True, float("nan")])
def test_samples_that_are_neither_a_number_nor_a_part_are_quoted(samples):
    with pytest.raises(ValueError, match=f"a part between 0 and 1, not {samples!r}"):
        FewShot(samples=samples)

"""Plates with batch effects: what is planted can be found, and not where it was left out."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.datasets import Plates
from ccl_plugins.datasets.plates import CELL_RANGES, CELLS, MECHANISMS, cells


def colors(split):
    """(N, 5) the median of each channel, mostly of the ground."""
    return split.images.flatten(2).float().median(2).values


def shares_of_plate(values, plate):
    """How much of the variance is between plates."""
    means = torch.stack([values[plate == each].mean(0) for each in plate.unique()])
    between = (means[torch.searchsorted(plate.unique(), plate)] - values.mean(0)).square().sum()
    return float(between / (values - values.mean(0)).square().sum())


def test_mechanism_and_site_agree_in_training_as_often_as_asked_for():
    for agreement in (0.25, 0.6, 1.0):
        plates = Plates(train=4000, test=4000, size=8, agreement=agreement)
        for split, expected in (("train", agreement), ("test", 0.25)):
            columns = plates(split).metadata
            agrees = (columns["mechanism"] == columns["site"]).double().mean()
            assert agrees == pytest.approx(expected, abs=0.03)
    assert columns["label"].bincount().min() > 900


def test_batch_effects_are_those_of_plates_and_none_without_effect():
    for effect, least, most in ((0.0, 0.0, 0.1), (1.0, 0.5, 1.0)):
        split = Plates(train=600, test=4, size=16, effect=effect)("train")
        assert least <= shares_of_plate(colors(split), split.metadata["plate"]) < most


def test_columns_belong_together():
    columns = Plates(train=2000, test=4, size=8, compounds=50)("train").metadata
    assert torch.equal(columns["plate"] // 4, columns["site"])
    assert torch.equal(columns["compound"] % MECHANISMS, columns["mechanism"])
    counts = columns["compound"].bincount()
    assert len(counts) <= 4 * 50
    assert counts[:4].min() > 10 * counts[100:].double().mean()
    assert 0.5 <= columns["dose"].min() < 0.51 < 0.99 < columns["dose"].max() <= 1


def test_the_new_site_has_plates_of_its_own():
    test = Plates(train=4, test=200, size=8, held_out="new site")("test").metadata
    assert test["site"].unique().tolist() == [4]
    assert test["plate"].unique().tolist() == [16, 17, 18, 19]


def test_parts_have_other_samples_of_the_same_world():
    parts = {
        held_out: Plates(300, 300, 16, effect=1.0, held_out=held_out)("test")
        for held_out in ("sites", "validation")
    }
    one, two = parts.values()
    assert not torch.equal(one.images, two.images)
    for plate in range(4):
        near, far = (
            (
                colors(one)[one.metadata["plate"] == plate].mean(0)
                - colors(two)[two.metadata["plate"] == other].mean(0)
            ).norm()
            for other in (plate, plate + 4)
        )
        assert near < far
    other = Plates(300, 300, 16, seed=1)("test")
    assert not torch.equal(other.metadata["mechanism"], one.metadata["mechanism"])


def test_traits_change_what_is_drawn():
    def drawn(**traits):
        unit = torch.full((200, len(CELL_RANGES)), 0.5)
        for name, value in traits.items():
            unit[:, [*CELL_RANGES].index(name)] = value
        return cells(unit, 32, torch.Generator().manual_seed(0)).mean((0, 2, 3))

    nucleus, body, membrane, _, _ = range(5)
    small, large = drawn(radius=0.0), drawn(radius=1.0)
    assert large[body] > 2 * small[body]
    assert drawn(nucleus=1.0)[nucleus] > 2 * drawn(nucleus=0.0)[nucleus]
    assert drawn(membrane=1.0)[membrane] > 2 * drawn(membrane=0.0)[membrane]
    assert drawn(crowd=1.0)[body] > 2 * drawn(crowd=0.0)[body]
    one = cells(torch.zeros(1, len(CELL_RANGES)), 32, torch.Generator().manual_seed(0))
    assert one.min() >= 0
    assert one.max() <= 1
    assert CELLS > 1


def test_an_agreement_below_chance_is_refused():
    with pytest.raises(ValueError, match=r"agreement must be 0\.25 or more, not 0\.1"):
        Plates(agreement=0.1)

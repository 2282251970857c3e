"""The condition ``shuffled``: the same values, of other samples."""

from __future__ import annotations

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.conditions import Clusters, Column, Embedding, Shuffled
from ccl_plugins.datasets import ColorDigits
from ccl_plugins.protocols import Table

TRAIN = ColorDigits()("train")


def test_every_value_goes_to_another_sample():
    color = TRAIN.metadata["color"]
    values = (
        Shuffled(Column("color", value_type="continuous"), seed=3).fit(TRAIN, None, None).values
    )
    assert values.unique(dim=0).equal(color.unique(dim=0))
    assert (values == color).all(1).float().mean() < 0.01
    other = Shuffled(Column("color", value_type="continuous"), seed=4).fit(TRAIN, None, None).values
    assert not values.equal(other)


def test_a_warm_start_finds_the_rows_where_the_other_condition_left_them():
    """Clusters that are not fitted again are the same after the next epoch."""
    points = torch.randn(60, 4)
    shuffled = Shuffled(Clusters(3, every=5))
    first = shuffled.fit(range(60), lambda: points, None)
    again = shuffled.fit(range(60), lambda: points, first)
    assert again.values.equal(first.values)
    assert isinstance(first, Table)
    assert "centroids_3" in again.extras


def test_it_is_what_the_other_condition_is():
    condition = Shuffled(Column("label", value_type="categorical", missing="drop"))
    assert (condition.value_type, condition.refresh) == ("categorical", "never")
    assert (condition.column, condition.missing) == ("label", "drop")
    assert Shuffled(Clusters([2, 4])).hierarchy
    assert Shuffled(Clusters(2, of="key")).reads_embeddings == "key"


def test_what_has_no_rows_to_shuffle_is_refused():
    with pytest.raises(ValueError, match="Embedding is computed in every step"):
        Shuffled(Embedding())
    choice = ccl.condition(
        "shuffled", of={"use": "column", "name": "color", "value_type": "continuous"}
    )
    assert choice.build().of.name == "color"

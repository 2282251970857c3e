from __future__ import annotations

from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset
from torch import Tensor

from ccl_plugins.conditions import Clusters, Original
from ccl_plugins.numerics.generators import generator_states
from ccl_plugins.protocols import Embedded, Table
from ccl_plugins.training.tables import Tables

SPLIT = FakeDataset(6)("train")


class Given:
    """A condition with the values it is given."""

    def __init__(self, values: Any, value_type: str = "continuous", refresh: str = "never") -> None:
        self.values, self.value_type, self.refresh = values, value_type, refresh
        self.fits: list[Any] = []

    def fit(self, split: Any, embed: Any, previous: Any) -> Any:
        self.fits.append(previous)
        return self.values


def fitted(*args: Any) -> Tables:
    tables = Tables({"condition": Given(*args)}, 6)
    tables.refresh(0, SPLIT, lambda: torch.zeros(6, 2))
    return tables


@pytest.mark.parametrize(
    ("values", "value_type", "message"),
    [
        (torch.zeros(5), "continuous", r"shape \(5,\), but the data set has 6 samples"),
        ([0.0] * 6, "continuous", "must be a tensor, not list"),
        ({"a": 0}, "continuous", r"not dict: declare value_type .* as {'a': 'continuous'}"),
        (
            torch.tensor([0, 1, float("nan"), 0, 0, float("nan")]),
            "continuous",
            r"2 of 6 .*\(2, 5; from 0\)",
        ),
        (
            torch.tensor([0, 1, float("inf"), 0, 0, 0]),
            "continuous",
            r"infinite .*1 of 6 rows \(2; from 0\)",
        ),
        (
            torch.tensor([0, 1, -1, 0, 0, 2]),
            "categorical",
            r"missing \(-1\) .*1 of 6 rows \(2; from 0\)",
        ),
        (torch.tensor([0, 1, 0.5, 0, 0, 2]), "categorical", r"fractional .* \(2; from 0\)"),
        (torch.full((6, 2), 2), "multi_label", r"6 of 6 rows \(0, 1, 2, 3, 4, 5; from 0\)"),
        (torch.zeros(6), "ordinal", "value_type of condition .*, not 'ordinal'"),
    ],
)
def test_bad_values_are_refused_by_row(values: Any, value_type: str, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(values, value_type)


@pytest.mark.parametrize(
    ("values", "value_type", "dtype"),
    [
        (torch.arange(6.0), "categorical", torch.long),
        (torch.ones(6, 2, dtype=torch.bool), "multi_label", torch.float32),
        (torch.ones(6, dtype=torch.float64), "continuous", torch.float32),
    ],
)
def test_values_get_the_dtype_of_their_value_type(
    values: Tensor, value_type: str, dtype: Any
) -> None:
    found = fitted(values, value_type).look_up(torch.tensor([4, 1]))["condition"]
    torch.testing.assert_close(found, values[[4, 1]].to(dtype))


def test_static_tables_are_fitted_once_and_refreshed_ones_every_epoch() -> None:
    static, refreshed = Given(torch.zeros(6)), Given(torch.ones(6), refresh="epoch")
    tables = Tables({"a": static, "b": refreshed}, 6)
    assert [tables.refresh(e, SPLIT, lambda: torch.zeros(6)) for e in (0, 0, 1)] == [
        ["a", "b"],
        [],
        ["b"],
    ]
    assert static.fits == [None]
    first, second = refreshed.fits
    assert first is None
    torch.testing.assert_close(second.values, torch.ones(6))
    torch.testing.assert_close(tables.look_up(torch.arange(2))["b"], torch.ones(2))


def test_embeddings_are_computed_once_for_all_conditions_of_an_epoch() -> None:
    class Asks(Given):
        reads_embeddings = True

        def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
            return embed()

    calls = []
    tables = Tables({"a": Asks(None), "b": Asks(None)}, 6)
    tables.refresh(0, SPLIT, lambda: calls.append(0) or torch.zeros(6, 2))
    assert calls == [0]


def test_what_is_computed_is_given_to_the_conditions_that_declare_them() -> None:
    class Asks(Given):
        def __init__(self, reads: Any) -> None:
            super().__init__(None)
            self.reads_embeddings = reads

        def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
            return embed()

    calls: list[str] = []

    def embed(of: str = "projection") -> Tensor:
        calls.append(of)
        return torch.full((6, 2), float(len(of)))

    tables = Tables({"a": Asks(True), "b": Asks("key"), "c": Asks("key"), "d": Original()}, 6)
    tables.refresh(0, SPLIT, embed)
    assert calls == ["projection", "key", "features"]
    assert [float(tables[name].values.mean()) for name in "abcd"] == [10, 3, 3, 8]


def test_embeddings_are_given_only_to_conditions_that_declare_them() -> None:
    class Undeclared(Given):
        def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
            return embed()

    tables = Tables({"a": Undeclared(None)}, 6)
    with pytest.raises(RuntimeError, match=r"'a' calls embed.* reads_embeddings = True"):
        tables.refresh(0, SPLIT, lambda: torch.zeros(6, 2))


def test_clusters_read_embeddings_if_what_they_cluster_does() -> None:
    reading, plain = Given(torch.rand(6, 2)), Given(torch.rand(6, 2))
    reading.reads_embeddings = True
    assert Clusters(2).reads_embeddings
    assert Clusters(2, of=reading).reads_embeddings
    assert not Clusters(2, of=plain).reads_embeddings
    reading.reads_embeddings = "key"
    assert (
        Clusters(2, of=reading).reads_embeddings == Clusters(2, of="key").reads_embeddings == "key"
    )


def test_a_condition_that_needs_no_embeddings_computes_none() -> None:
    class Sometimes(Given):
        reads_embeddings = True

    tables = Tables({"a": Sometimes(torch.zeros(6))}, 6)
    assert tables.refresh(0, SPLIT, lambda: pytest.fail("embedded")) == ["a"]


def test_a_fit_has_its_own_random_stream() -> None:
    class Random(Given):
        def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
            return torch.rand(6)

    def draw(epoch: int) -> Tensor:
        tables = Tables({"a": Random(None, refresh="epoch")}, 6)
        tables.refresh(epoch, SPLIT, lambda: torch.zeros(6))
        return tables["a"].values

    before = generator_states()
    torch.testing.assert_close(draw(1), draw(1), rtol=0, atol=0)
    assert not torch.equal(draw(1), draw(2))
    torch.testing.assert_close(generator_states(), before, rtol=0, atol=0)


def test_tables_survive_their_state() -> None:
    tables = fitted(Table(torch.arange(6.0), {"centers": torch.ones(2, 3)}))
    again = Tables(tables.conditions, 6)
    again.load_state_dict(tables.state_dict())
    assert again.refresh(3, SPLIT, lambda: torch.zeros(6)) == []
    torch.testing.assert_close(again["condition"].values, torch.arange(6.0))
    extras = again.extras_on(torch.device("cpu"))
    torch.testing.assert_close(extras, {"condition/centers": torch.ones(2, 3)})
    with pytest.raises(ValueError, match="condition 'condition'; this run has none"):
        Tables({}, 6).load_state_dict(tables.state_dict())


def test_batch_conditions_see_the_batch_without_gradient() -> None:
    class Batchwise:
        refresh, value_type = "batch", "continuous"

        def __call__(self, embedded: Embedded) -> Tensor:
            return embedded.projections * 2

    tables = Tables({"a": Batchwise()}, 6)
    assert tables.refresh(0, SPLIT, lambda: torch.zeros(6)) == []
    projections = torch.ones(2, 3, 4, requires_grad=True)
    found = tables.observe(Embedded(projections, projections))["a"]
    assert not found.requires_grad
    torch.testing.assert_close(found, torch.full((2, 3, 4), 2.0))

"""Missing values are refused, become a class of their own, or are left out of training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset, FakeObjective, fit, make_parts, shuffled
from torch import Tensor

from ccl_plugins.training.sampling import EpochSampler
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables

pytestmark = pytest.mark.filterwarnings("ignore:condition .* is missing:UserWarning")

SPLIT = FakeDataset(6)("train")
IDS = torch.tensor([0, -1, 2, 0, -1, 1])


class Given:
    def __init__(self, values: Tensor, missing: str, value_type: str = "categorical") -> None:
        self.values, self.missing, self.value_type, self.refresh = (
            values,
            missing,
            value_type,
            "never",
        )

    def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
        return self.values


def fitted(**conditions: Any) -> Tables:
    tables = Tables(conditions, 6)
    tables.refresh(0, SPLIT, lambda: torch.zeros(6, 2))
    return tables


def test_own_gives_each_missing_sample_a_class_that_nothing_else_has():
    tables = fitted(z=Given(IDS, "own"))
    torch.testing.assert_close(tables["z"].values, torch.tensor([0, 3, 2, 0, 4, 1]))
    assert tables.missing == {"z": 2}
    assert not tables.left_out().any()


def test_in_a_hierarchy_only_the_missing_level_is_its_own():
    levels = torch.tensor([[0, 0], [0, -1], [1, 2], [-1, -1], [1, 1], [0, 0]])
    expected = torch.tensor([[0, 0], [0, 3], [1, 2], [2, 4], [1, 1], [0, 0]])
    torch.testing.assert_close(fitted(z=Given(levels, "own"))["z"].values, expected)


def test_drop_leaves_the_samples_out_of_every_batch():
    seen = {}

    def sampler(*, size: int, batch_size: int, seed: int, condition: Tensor) -> Any:
        seen.update(size=size, condition=condition)
        return shuffled(size=size, batch_size=batch_size, seed=seed)

    tables = fitted(z=Given(IDS, "drop"))
    parts = make_parts(sampler=sampler, sampler_on="z")
    made = EpochSampler(parts, tables, FitSettings(batch_size=2), None)()
    assert seen["size"] == 4
    torch.testing.assert_close(seen["condition"], torch.tensor([0, 2, 0, 1]))
    assert sorted(torch.cat(list(made.batches(0))).tolist()) == [0, 2, 3, 5]
    torch.testing.assert_close(tables["z"].values, IDS)


@pytest.mark.parametrize(
    ("values", "value_type"),
    [
        (torch.tensor([[1.0], [2.0], [float("nan")], [0.0], [1.0], [1.0]]), "continuous"),
        (torch.tensor([1, 0, -1, 0, 1, 1.0])[:, None], "multi_label"),
    ],
)
def test_vectors_can_be_left_out_but_have_no_class_of_their_own(values, value_type):
    tables = fitted(z=Given(values, "drop", value_type))
    assert tables.left_out().nonzero().flatten().tolist() == [2]
    assert tables.trained_on("z").values.isfinite().all()
    with pytest.raises(ValueError, match=f"condition is {value_type}: missing='ignore'"):
        fitted(z=Given(values, "own", value_type))


def test_samples_that_any_condition_drops_are_left_out_for_all():
    other = Given(torch.tensor([-1, 0, 0, 0, 0, 0]), "drop")
    tables = fitted(z=Given(IDS, "drop"), other=other, plain=Given(torch.arange(6), "error"))
    assert tables.left_out().nonzero().flatten().tolist() == [0, 1, 4]
    torch.testing.assert_close(tables.trained_on("plain").values, torch.tensor([2, 3, 5]))


def test_a_refreshed_condition_must_drop_the_same_samples():
    condition = Given(IDS, "drop")
    condition.refresh = "epoch"
    tables = fitted(z=condition)
    condition.values = IDS.roll(1)
    with pytest.raises(ValueError, match="has no value for other samples"):
        tables.refresh(1, SPLIT, lambda: torch.zeros(6, 2))


def test_nothing_left_and_unknown_policies_are_refused():
    with pytest.raises(ValueError, match="no value in any of its 6 rows"):
        fitted(z=Given(torch.full((6,), -1), "drop"))
    with pytest.raises(ValueError, match="'error', 'own', 'ignore', 'drop', not 'guess'"):
        fitted(z=Given(IDS, "guess"))


def test_a_dropped_table_survives_its_state():
    tables = fitted(z=Given(IDS, "drop"))
    again = Tables(tables.conditions, 6)
    again.load_state_dict(tables.state_dict())
    torch.testing.assert_close(again.left_out(), tables.left_out())


def test_a_condition_read_before_it_was_fitted_is_named():
    tables = Tables({"z": Given(IDS, "drop")}, 6)
    with pytest.raises(RuntimeError, match="'z' is read before it was fitted"):
        tables.look_up(torch.arange(2))
    with pytest.raises(KeyError, match="'z' is read before it was fitted"):
        tables["z"]
    with pytest.raises(KeyError, match="no condition 'y'; there are 'z'"):
        tables["y"]


@pytest.mark.filterwarnings("default")
def test_the_count_is_shown():
    with pytest.warns(UserWarning, match="'z' is missing in 2 of 6 samples, which are left out"):
        tables = fitted(z=Given(IDS, "drop"))
    assert str(tables.describe("z")) == (
        "categorical (6,); 3 values, 1 to 2 samples each; missing in 2 samples"
    )
    assert tables.describe("z").metrics() == {"missing": 2, "values": 3, "fewest": 1, "most": 2}


def test_training_never_sees_what_is_left_out(tmp_path):
    condition = Given(torch.arange(20) % 4, "drop")
    condition.values[[3, 7]] = -1
    parts = make_parts(conditions={"condition": condition})
    settings = FitSettings(epochs=3, batch_size=6, workers=0)
    assert fit(parts, settings, tmp_path, {}, progress=False).finished
    seen = parts.objective.seen
    assert len(seen) == 9
    assert {3, 7}.isdisjoint(i for batch in seen for i in batch)


def test_an_objective_is_set_up_on_what_is_trained_on(tmp_path):
    class Counts(FakeObjective):
        def setup(self, tables: Any, sizes: Any) -> None:
            self.found = tables["condition"].values.tolist()

    condition = Given(torch.arange(20) % 4, "drop")
    condition.values[[0, 1]] = -1
    parts = make_parts(conditions={"condition": condition}, objective=Counts())
    fit(parts, FitSettings(epochs=1, batch_size=6, workers=0), tmp_path, {}, progress=False)
    assert parts.objective.found == condition.values[2:].tolist()


def test_ignore_keeps_all_samples_in_training_and_names_the_condition():
    whole = Given(torch.arange(6), "ignore")
    tables = fitted(z=Given(IDS, "ignore"), whole=whole, other=Given(IDS, "own"))
    assert tables.ignored == ("z",)
    assert not tables.left_out().any()
    torch.testing.assert_close(tables.look_up(torch.arange(6))["z"], IDS)
    torch.testing.assert_close(tables.with_values("z").values, torch.tensor([0, 2, 0, 1]))
    again = Tables(tables.conditions, 6)
    again.load_state_dict(tables.state_dict())
    assert again.ignored == ("z",)


def test_an_ignored_value_may_come_with_a_later_epoch():
    condition = Given(IDS, "ignore")
    condition.refresh = "epoch"
    tables = fitted(z=condition)
    condition.values = torch.arange(6)
    tables.refresh(1, SPLIT, lambda: torch.zeros(6, 2))
    assert tables.ignored == ()

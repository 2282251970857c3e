"""Evaluators of a bank are fitted to nine tenths of the training samples, measured on the last."""

from __future__ import annotations

import warnings

import pytest
import torch

from ccl_plugins.conditions import Column
from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.protocols import Measurement
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.bank import roles
from ccl_plugins.watching.columns import Columns
from ccl_plugins.watching.monitor import Costs, Monitor
from ccl_plugins.watching.settings import MonitorSettings

N, F = 400, 6
GENERATOR = torch.Generator().manual_seed(0)
LABEL = torch.arange(N) % 4
FEATURES = torch.randn(4, F, generator=GENERATOR)[LABEL]
FEATURES = FEATURES + 0.6 * torch.randn(N, F, generator=GENERATOR)
KEPT, OUT = validation_rows(N)
VIEWS = torch.nn.functional.normalize(torch.randn(2, N, 5, generator=GENERATOR), dim=2)


class Split:
    def __init__(self, **columns):
        self.metadata = {"label": LABEL, **columns}

    def __len__(self):
        return N


class Fixed:
    """A condition with given values."""

    refresh = "never"

    def __init__(self, values, value_type, missing="error"):
        self.values, self.value_type, self.missing = values, value_type, missing

    def fit(self, split, embed, previous):
        return self.values


def columns_of(conditions=None, label=LABEL, columns=None):
    split = Split(**{"label": label, **(columns or {})})
    tables = Tables(conditions or {}, N)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "condition 'z' is missing")
        tables.refresh(0, split, lambda: None)
    return Columns(tables, split, {}, [*(columns or {})])


def measured(features=FEATURES, evaluators=None, **given):
    monitor = Monitor(MonitorSettings(), Costs(), evaluators)
    monitor.columns, monitor._width, monitor._held = columns_of(**given), F, roles(N, 1.0)[1]
    return monitor._evaluated(torch.cat([features, *VIEWS], 1), torch.arange(N))


def test_evaluators_are_measured_on_the_validation_part_alone():
    expected = measured()
    assert expected["linear/top1"] > 0.7
    assert expected["knn/top1"] > 0.7
    wrong = LABEL.clone()
    wrong[OUT] = (
        wrong[OUT] + 1
    ) % 4  # no evaluator is fitted to them, and they are all of the score
    found = measured(label=wrong)
    assert found["linear/top1"] < 0.3
    assert found["knn/top1"] < 0.3
    assert found["features/rankme"] == expected["features/rankme"]


def test_no_evaluator_is_fitted_to_the_samples_that_measure_it():
    class Rows:
        columns = {"label": ("categorical",)}  # noqa: RUF012

        def __call__(self, train, test):
            self.train, self.test = train.features, test.features
            return []

    rows = Rows()
    measured(evaluators=[rows])
    torch.testing.assert_close(rows.train, FEATURES[KEPT.sort().values], rtol=0, atol=0)
    torch.testing.assert_close(rows.test, FEATURES[OUT.sort().values], rtol=0, atol=0)


def test_numbers_are_read_as_explained_variance():
    z = torch.stack([FEATURES @ torch.ones(F), torch.randn(N, generator=GENERATOR)], 1)
    found = measured(conditions={"easy": Fixed(z[:, 0], "continuous"), "z": Fixed(z, "continuous")})
    torch.testing.assert_close(found["easy/r2"], 1.0, atol=1e-4, rtol=0)
    assert 0.3 < found["z/r2"] < 0.52  # the mean over a column that is read and one that is not


def test_numbers_of_any_unit_give_the_same():
    z = FEATURES @ torch.ones(F) + torch.randn(N, generator=GENERATOR)
    first = measured(conditions={"z": Fixed(z, "continuous")})["z/r2"]
    second = measured(conditions={"z": Fixed(1000 + 255 * z, "continuous")})["z/r2"]
    torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


def test_samples_without_a_value_are_left_out_of_their_column_alone():
    ids = LABEL.clone()
    ids[::2] = -1
    found = measured(conditions={"z": Fixed(ids, "categorical", "ignore")})
    assert found["linear/top1"] == measured()["linear/top1"]
    assert found["linear-z/top1"] > 0.7  # of two classes, 1 and 3
    gaps = torch.where(torch.arange(N) < 100, torch.nan, FEATURES.sum(1))
    found = measured(conditions={"z": Fixed(gaps, "continuous", "ignore")})
    torch.testing.assert_close(found["z/r2"], 1.0, atol=1e-4, rtol=0)


def test_bits_that_are_missing_are_left_out_and_no_numbers():
    bits = torch.stack([LABEL == 0, LABEL == 1], 1).long()
    whole = measured(conditions={"z": Fixed(bits.clone(), "multi_label")})
    bits[torch.arange(N) % 5 < 2] = -1
    with_gaps = measured(conditions={"z": Fixed(bits, "multi_label", "ignore")})
    assert with_gaps["z/r2"] > 0.3
    assert with_gaps["z/r2"] == pytest.approx(whole["z/r2"], abs=0.2)


def test_the_levels_of_a_hierarchy_are_columns_of_their_own():
    levels = torch.stack([LABEL, LABEL % 2], 1)
    found = measured(conditions={"z": Fixed(levels, "categorical")})
    second = measured(conditions={"z": Fixed(LABEL % 2, "categorical")})
    assert found["linear-z[0]/top1"] == found["linear/top1"]
    assert found["linear-z[1]/top1"] == second["linear-z/top1"]


def test_bits_are_read_as_numbers_and_constant_ones_left_out():
    bits = torch.stack([LABEL == 0, torch.ones(N).bool(), torch.zeros(N).bool()], 1).long()
    bits[KEPT[0], 2] = 1  # constant in what is measured alone
    found = measured(conditions={"z": Fixed(bits, "multi_label")})
    first = measured(conditions={"z": Fixed(bits[:, :1], "multi_label")})
    assert 0.2 < found["z/r2"] < 1
    torch.testing.assert_close(found["z/r2"], first["z/r2"])


@pytest.mark.parametrize(
    "condition",
    [
        Fixed(torch.arange(N), "categorical"),
        Fixed(torch.zeros(N).long(), "categorical"),
        Fixed(torch.full((N, 2), 0.3), "continuous"),
    ],
)
def test_nothing_is_said_of_a_condition_that_nothing_can_read(condition):
    assert measured(conditions={"z": condition}) == measured()


def test_class_ids_may_be_any_whole_numbers():
    other = torch.tensor([5, 17, 10**9, 2])[LABEL]
    assert measured(label=other)["linear/top1"] == measured()["linear/top1"]


def test_a_label_of_numbers_has_an_explained_variance():
    found = measured(label=FEATURES.sum(1))
    torch.testing.assert_close(found["label/r2"], 1.0, atol=1e-4, rtol=0)
    assert "linear/top1" not in found


def test_columns_are_read_as_conditions_are():
    size = FEATURES.sum(1)
    columns = {"size": size, "word": ["abcd"[i] for i in LABEL], "odd": size.clone()}
    columns["odd"][5] = torch.inf
    condition = {"size": Fixed(LABEL % 2, "categorical")}
    found = measured(columns=columns)
    expected = measured(conditions={"z": Fixed(size, "continuous")})
    assert found["size/r2"] == expected["z/r2"]
    assert found["linear-word/top1"] == found["linear/top1"]
    assert not [name for name in found if "odd" in name]
    both = measured(columns=columns, conditions=condition)  # the condition of that name is read
    assert "size/r2" not in both
    assert both["linear-size/top1"] > 0.5


def test_a_condition_that_is_a_column_is_read_once_by_the_name_of_the_column():
    color = {"color": FEATURES.sum(1)}
    condition = Column("color", value_type="continuous")
    found = measured(columns=color, conditions={"z": condition})
    assert "color/r2" in found
    assert not [name for name in found if name.startswith("z")]


def test_features_that_are_not_finite_give_no_number():
    broken = FEATURES.clone()
    broken[3] = torch.nan
    assert measured(broken) == {}


class Fails:
    def __call__(self, train, test):
        raise ValueError("nothing fits")


class Draws:
    """Draws of the global generator, and reads no column."""

    def __call__(self, train, test):
        return [Measurement("draws/number", torch.rand(()).item()), *self.rest(test)]

    def rest(self, test):
        return [Measurement("draws/samples", float(len(test.features)))]


def test_an_evaluator_that_raises_is_named_and_the_others_measure():
    with pytest.warns(UserWarning, match="has no number of Fails: ValueError: nothing fits"):
        found = measured(evaluators=[Fails(), Draws()])
    assert found["draws/samples"] == N  # it reads no column, so that all samples measure it


def test_an_evaluator_that_draws_random_numbers_disturbs_no_training():
    before = torch.get_rng_state()
    measured(evaluators=[Draws()])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_table_of_another_epoch_is_read_anew():
    columns = columns_of(conditions={"z": Fixed(LABEL, "categorical")})
    assert len(columns.measurable()["z"].unique()) == 4
    columns.tables.load_state_dict({"z": {"values": LABEL % 2, "extras": {}, "epoch": 1}})
    assert len(columns.measurable()["z"].unique()) == 2

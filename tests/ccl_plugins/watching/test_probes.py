"""Online probes: fitted to nine tenths of the training samples, measured on the last."""

from __future__ import annotations

import warnings

import pytest
import torch

from ccl_plugins.metadata.validation import validation_rows
from ccl_plugins.protocols import Table
from ccl_plugins.training.tables import Tables
from ccl_plugins.watching.bank import Bank
from ccl_plugins.watching.costs import Costs
from ccl_plugins.watching.probes import FITTED, HELD, HELD_OUT, MEASURED, NEAR, Probes, roles
from ccl_plugins.watching.variables import Readings

N, F = 400, 6
GENERATOR = torch.Generator().manual_seed(0)
LABEL = torch.arange(N) % 4
FEATURES = torch.randn(4, F, generator=GENERATOR)[LABEL]
FEATURES = FEATURES + 0.6 * torch.randn(N, F, generator=GENERATOR)
KEPT, OUT = validation_rows(N)
EMBEDDINGS = torch.randn(N, 5, generator=GENERATOR)
ALL = ("linear", "knn", "effective_rank", "rankme")


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


def probe(
    features=FEATURES,
    measures=ALL,
    batches=7,
    conditions=None,
    label=LABEL,
    flush=True,
    columns=None,
):
    tables = Tables(conditions or {}, N)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "condition 'z' is missing")
        tables.refresh(0, Split(), lambda: None)
    split, columns = Split(**{"label": label, **(columns or {})}), [*(columns or {})]
    readings = Readings(tables, split, {}, torch.device("cpu"), columns)
    probes = Probes(measures, readings, N, 1.0, Costs())
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    for i, index in enumerate(order.chunk(batches)):
        probes.see(features[index], EMBEDDINGS[index], index, i)
        if flush:
            probes.flush()
    return probes


def test_the_probes_are_measured_on_the_validation_part_alone():
    expected = probe().read()
    assert expected["label/linear"] > 0.7
    assert expected["label/knn"] > 0.7
    wrong = LABEL.clone()
    wrong[OUT] = (
        wrong[OUT] + 1
    ) % 4  # their labels are not in the probes, and they are all of the score
    found = probe(label=wrong).read()
    assert found["label/linear"] < 0.3
    assert found["label/knn"] < 0.3
    assert found["effective_rank"] == expected["effective_rank"]


def test_a_linear_probe_never_sees_the_samples_that_measure_it():
    changed = FEATURES.clone()
    changed[OUT] = 1e3
    for name, each in probe(changed).sums.items():
        torch.testing.assert_close(each, probe().sums[name], rtol=0, atol=0)
    assert not set(probe().banks["near"].read()[1].tolist()) & set(OUT.tolist())


def test_a_probes_accuracy_is_that_of_least_squares_on_all_batches_at_once():
    x, y = FEATURES.double(), torch.nn.functional.one_hot(LABEL).double()
    one = torch.cat([x, torch.ones(N, 1)], 1)
    weight = torch.linalg.lstsq(one[KEPT], y[KEPT]).solution
    right = ((one[OUT] @ weight).argmax(1) == LABEL[OUT]).double().mean()
    assert probe().read()["label/linear"] == float(right)


@pytest.mark.parametrize("batches", [1, 13])
def test_measures_do_not_depend_on_how_samples_are_divided_into_batches(batches):
    torch.testing.assert_close(probe(batches=batches).read(), probe(flush=False).read())


def test_numbers_are_read_as_explained_variance():
    z = torch.stack([FEATURES @ torch.ones(F), torch.randn(N, generator=GENERATOR)], 1)
    found = probe(conditions={"easy": Fixed(z[:, 0], "continuous"), "z": Fixed(z, "continuous")})
    read = found.read()
    torch.testing.assert_close(read["easy/r2"], 1.0, atol=1e-4, rtol=0)
    assert 0.5 < read["easy/knn"] < 1
    assert 0.3 < read["z/r2"] < 0.52  # the mean over a column that is read and one that is not


def test_numbers_of_any_unit_give_the_same():
    z = FEATURES @ torch.ones(F) + torch.randn(N, generator=GENERATOR)
    first = probe(conditions={"z": Fixed(z, "continuous")}).read()
    second = probe(conditions={"z": Fixed(1000 + 255 * z, "continuous")}).read()
    torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


def test_samples_without_a_value_are_left_out_of_their_probe_alone():
    ids = LABEL.clone()
    ids[::2] = -1
    found = probe(conditions={"z": Fixed(ids, "categorical", "ignore")}).read()
    assert found["label/linear"] == probe().read()["label/linear"]
    assert found["z/linear"] > 0.7  # of two classes, 1 and 3
    gaps = torch.where(torch.arange(N) < 100, torch.nan, FEATURES.sum(1))
    found = probe(conditions={"z": Fixed(gaps, "continuous", "ignore")}).read()
    torch.testing.assert_close(found["z/r2"], 1.0, atol=1e-4, rtol=0)


def test_the_levels_of_a_hierarchy_are_one_mean():
    levels = torch.stack([LABEL, LABEL % 2], 1)
    found = probe(conditions={"z": Fixed(levels, "categorical")}).read()
    second = probe(conditions={"z": Fixed(LABEL % 2, "categorical")}).read()
    mean = (found["label/linear"] + second["z/linear"]) / 2
    torch.testing.assert_close(found["z/linear"], mean)


@pytest.mark.parametrize(
    "condition",
    [
        Fixed(torch.arange(N), "categorical"),
        Fixed(torch.zeros(N).long(), "categorical"),
        Fixed(torch.full((N, 2), 0.3), "continuous"),
    ],
)
def test_nothing_is_said_of_a_condition_that_no_probe_can_read(condition):
    assert not [name for name in probe(conditions={"z": condition}).read() if name.startswith("z/")]


def test_class_ids_may_be_any_whole_numbers():
    other = torch.tensor([5, 17, 10**9, 2])[LABEL]
    assert probe(label=other).read() == probe().read()


def test_a_label_of_numbers_has_an_explained_variance():
    found = probe(label=FEATURES.sum(1)).read()
    torch.testing.assert_close(found["label/r2"], 1.0, atol=1e-4, rtol=0)
    assert "label/linear" not in found


def test_columns_are_probed_as_conditions_are():
    size = FEATURES.sum(1)
    columns = {"size": size, "word": ["abcd"[i] for i in LABEL], "odd": size.clone()}
    columns["odd"][5] = torch.inf
    condition = {"size": Fixed(LABEL % 2, "categorical")}
    found = probe(columns=columns).read()
    expected = probe(conditions={"z": Fixed(size, "continuous")}).read()
    assert found["size/r2"] == expected["z/r2"]
    assert found["word/linear"] == found["label/linear"]
    assert not [name for name in found if name.startswith("odd")]
    both = probe(columns=columns, conditions=condition).read()  # the condition of that name is read
    assert "size/r2" not in both
    assert both["size/linear"] > 0.5


def test_features_that_are_not_finite_give_no_number():
    broken = FEATURES.clone()
    broken[3] = torch.nan
    assert probe(broken).read() == {}


def test_only_the_measures_that_are_asked_for_are_taken():
    assert set(probe(measures=["effective_rank"]).read()) == {"effective_rank"}
    assert set(probe(measures=["knn"]).read()) == {"label/knn"}
    assert set(probe(measures=["rankme"]).read()) == {"rankme"}
    assert set(probe(measures=["linear"]).read()) == {"label/linear"}


@pytest.mark.parametrize("flush", [True, False])
def test_a_probe_continues_from_its_state(flush):
    whole, first, second = (probe(flush=flush) for _ in range(3))
    second.clear()
    state = first.state_dict()
    second.load_state_dict(state)
    torch.testing.assert_close(second.read(), whole.read(), rtol=0, atol=0)


def test_large_data_fill_the_banks_and_never_more():
    for passes in (1.0, 0.01):
        found = roles(2_000_000, passes)
        held = int((found >= HELD_OUT).sum())
        assert held == 200_000
        seen = {role: int((found == role).sum()) * passes for role in (FITTED + 1, MEASURED)}
        torch.testing.assert_close(seen[FITTED + 1], 0.9 * NEAR, rtol=0.01, atol=1)
        torch.testing.assert_close(seen[MEASURED], 0.9 * HELD, rtol=0.01, atol=1)
    assert roles(1, 1.0).tolist() == [FITTED]


def test_a_full_bank_leaves_later_samples_out():
    bank = Bank(5)
    chosen = torch.tensor([True, False, True, True])
    for batch in range(3):
        index = torch.arange(4) + 10 * batch
        bank.write(index[:, None].float(), index, chosen, torch.full((4,), batch))
    features, index = bank.read()
    assert index.tolist() == [0, 2, 3, 10, 12]
    assert features.flatten().tolist() == index.tolist()
    bank.clear()
    assert not len(bank.read()[0])


def test_a_table_of_another_epoch_is_read_anew():
    tables = Tables({"z": Fixed(LABEL, "categorical")}, N)
    tables.refresh(0, Split(), lambda: None)
    readings = Readings(tables, Split(), {}, torch.device("cpu"))
    assert len(readings.variables()[1].classes) == 4
    tables.tables["z"] = Table(LABEL % 2)
    assert len(readings.variables()[1].classes) == 2

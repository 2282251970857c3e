"""Samples that belong together are split, held out and drawn together."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.datasets import Features, Subset
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.datasets.splitting import hold_out
from ccl_plugins.evaluators.intervals import estimate, mean, over_groups
from ccl_plugins.experiments.measure import held_out, measure
from ccl_plugins.metadata.groups import check_apart, validation_rows
from ccl_plugins.protocols import Frozen
from ccl_plugins.watching.bank import roles

PATIENTS = 60
"""Each has eight samples of one class, which are nearly alike."""


def patients(seed: int = 0) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    patient = torch.arange(PATIENTS).repeat_interleave(8)
    own = torch.randn(PATIENTS, 8, generator=draw)
    return {
        "features": own[patient] + 0.01 * torch.randn(len(patient), 8, generator=draw),
        "label": torch.randint(2, (PATIENTS,), generator=draw)[patient],
        "patient_id": patient,
    }


DATA = patients()


def split_by(**given) -> list[Annotated]:
    dataset = Features(DATA, test_fraction=0.25, **given)
    return [dataset("train"), dataset("test")]


def knn(train: Annotated, test: Annotated) -> dict[str, float]:
    frozen = [Frozen(each.samples, each.metadata) for each in (train, test)]
    return {one.name: one.value for one in ccl.create("evaluator", "knn")(*frozen)}


def test_a_group_comes_into_one_split_and_classes_keep_their_shares():
    for seed in range(3):
        train, test = split_by(group="patient_id", seed=seed)
        assert not {*train.metadata["patient_id"].tolist()} & {
            *test.metadata["patient_id"].tolist()
        }
        assert len(train) + len(test) == len(DATA["label"])
        assert len(test) / len(DATA["label"]) == pytest.approx(0.25, abs=0.05)
        shares = [each.targets.float().mean().item() for each in (train, test)]
        assert shares[0] == pytest.approx(shares[1], abs=0.12)
        assert train.group == "patient_id"


def test_a_split_by_sample_is_too_good_and_by_group_is_not():
    """The label is random for each patient: nobody can tell it for a new one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert knn(*split_by())["knn/top1"] > 0.98
    assert knn(*split_by(group="patient_id"))["knn/top1"] < 0.75


def test_a_split_that_cannot_be_made_of_whole_groups_is_refused():
    label, groups = torch.tensor([1, 0, 0, 1, 0, 0, 0, 0]), torch.tensor([3, 0, 0, 2, 3, 0, 2, 1])
    with pytest.raises(ValueError, match=r"would have no sample of class [01].*in few groups"):
        hold_out(label, 0.5, 0, groups)
    with pytest.raises(ValueError, match=r"class 0 has 6 samples, all in one group \(so have 1"):
        hold_out(label, 0.5, 0, torch.zeros(8).long())


def test_groups_are_class_ids_of_every_sample():
    for wrong, message in (
        ([0.5, 1.5, 2.5, 3.5], "group='z' must be a column of words or class ids"),
        ([0, 1, -1, 1], r"group='z': 1 samples have no value, such as sample 2 \(from 0\)"),
    ):
        columns = {"label": torch.tensor([0, 1, 0, 1]), "z": torch.tensor(wrong)}
        with pytest.raises(ValueError, match=message):
            Annotated(torch.zeros(4, 2), columns, group="z")
    with pytest.raises(ValueError, match="no column 'z'"):
        Annotated(torch.zeros(4, 2), {"label": torch.zeros(4).long()}, group="z")


def test_a_part_of_a_data_set_keeps_the_group():
    of = Features(DATA, test_fraction=0.25, group="patient_id")
    assert Subset(of, train=40)("train").group == "patient_id"


def test_groups_are_held_out_together_for_validation_and_monitors():
    groups = DATA["patient_id"]
    rows, held = validation_rows(len(groups), groups)
    assert not {*groups[rows].tolist()} & {*groups[held].tolist()}
    assert len(groups[held].unique()) == PATIENTS // 10
    assert roles(len(groups), 1.0, groups)[1].nonzero().flatten().equal(held)
    frozen = Frozen(DATA["features"], DATA, groups=groups)
    train, out = held_out(frozen)
    assert out.groups.equal(groups[held])
    assert train.groups.equal(groups[rows])
    with pytest.raises(
        ValueError, match="needs two training groups of samples or more, but there are 1"
    ):
        validation_rows(4, torch.zeros(4).long())


@pytest.mark.parametrize(
    ("count", "held"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (20, 3), (30, 3), (31, 4), (60, 6)]
)
def test_a_validation_part_is_of_several_groups_where_there_are_several(count, held):
    groups = torch.arange(4 * count) % count
    rows, out = validation_rows(len(groups), groups)
    assert len(groups[out].unique()) == held
    assert len(groups[rows].unique()) == count - held


def test_intervals_are_over_groups():
    """All samples of a group are alike, so that there are as many independent ones as groups."""
    groups = torch.arange(40).repeat_interleave(25)
    values = torch.randn(40, generator=torch.Generator().manual_seed(0))[groups]
    by_sample = mean(values)["interval"]
    with over_groups(groups):
        by_group = mean(values)["interval"]
        part = mean(values[:50])
    ratio = (by_group[1] - by_group[0]) / (by_sample[1] - by_sample[0])
    assert ratio == pytest.approx(5, rel=0.2)  # the root of 25
    assert part["interval"] is None
    assert mean(values)["interval"] == by_sample


def test_groups_of_one_sample_have_the_interval_of_samples():
    values = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    with over_groups(torch.arange(50)):
        assert mean(values) == mean(values)
        grouped = mean(values)
    assert grouped["interval"] == pytest.approx(mean(values)["interval"])


def test_a_draw_of_unequal_groups_counts_as_many_samples():
    seen = []
    with over_groups((torch.arange(20) - 7).clamp_min(0)):
        estimate(20, lambda counts: seen.append(counts.sum(1)) or counts.sum(1))
    assert len(torch.cat(seen)) > 1000
    assert torch.cat(seen).allclose(torch.tensor(20.0).double())


@pytest.mark.parametrize("count", [1, 2, 9, 10])
def test_few_groups_have_no_interval_and_are_said(count):
    groups = torch.arange(40) % count
    right = torch.arange(40) < 14
    said = f"of {count} groups?: fewer than 10 give no interval"
    told = pytest.warns(UserWarning, match=said) if count < 10 else nullcontext()
    with told, over_groups(groups):
        found = mean(right)
    assert found["value"] == pytest.approx(0.35)
    assert (found["interval"] is None) == (count < 10)


@pytest.mark.parametrize("name", ["linear", "knn", "few_shot", "dependence", "clustering"])
def test_a_run_measures_with_intervals_over_groups(name, caplog):
    columns = {**DATA, "site": DATA["label"].clone()}
    columns["site"][:16] = -1  # of two patients it is not known
    column = {"column": "site"} if name == "dependence" else {}
    frozen = Frozen(DATA["features"], columns, groups=DATA["patient_id"])
    pipeline = ccl.Pipeline(
        dataset=ccl.create(
            "dataset", "features", train=DATA, test_fraction=0.25, group="patient_id"
        ),
        backbone=ccl.backbone("mlp", in_features=8),
        method="simclr",
        transform="noise",
        objective="infonce",
        evaluate=[ccl.evaluator(name, **column)],
    )
    other = patients(1)["features"]  # of whom nobody can tell the label
    grouped = measure(pipeline, frozen, replace(frozen, features=other), pipeline.chosen_evaluators)
    told = "column 'site' is missing in 16 of" in caplog.text
    assert told == (name == "dependence"), "as where there are no groups"
    both = Frozen(frozen.features, columns), Frozen(other, columns)
    alone = measure(pipeline, *both, pipeline.chosen_evaluators)
    for each, other in zip(grouped.values(), alone.values(), strict=True):
        assert each.value == pytest.approx(other.value)
        assert each.interval is not None
        assert each.interval != other.interval


def test_groups_that_cross_are_refused_and_what_looks_like_one_is_said():
    apart = split_by(group="patient_id")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_apart(*apart)
        few = Annotated(
            torch.zeros(2, 8), {"label": torch.arange(2), "patient_id": torch.arange(2)}
        )
        check_apart(few, few)  # an id per sample
        label = Annotated(torch.zeros(4, 8), {"label": torch.tensor([0, 0, 1, 1])})
        check_apart(label, label)
    mixed = split_by()
    with pytest.warns(
        UserWarning, match=r"'patient_id' looks like a group.*group = \"patient_id\""
    ):
        check_apart(*mixed)
    mixed[0].group = "patient_id"
    with pytest.raises(
        ValueError, match=r"values of the group 'patient_id' are in both train and test"
    ):
        check_apart(*mixed)

"""Samples without a label are in both splits, and no class."""

from __future__ import annotations

import pytest
import torch
from support.measured import values

from ccl_plugins.datasets import Features
from ccl_plugins.datasets.splitting import hold_out
from ccl_plugins.evaluators import KNN, LinearProbe
from ccl_plugins.protocols import Frozen

LABEL = torch.arange(60) % 3


def labels(lacking):
    """Sixty labels in a fixed order, of which so many are missing."""
    generator = torch.Generator().manual_seed(1)
    label = LABEL[torch.randperm(60, generator=generator)]
    label[torch.randperm(60, generator=generator)[:lacking]] = -1
    return label


@pytest.mark.parametrize("fraction", [0.2, 0.5])
@pytest.mark.parametrize("lacking", [0, 1, 2, 7, 30])
def test_samples_with_a_label_are_split_as_if_they_were_alone(lacking, fraction):
    label = labels(lacking)
    known, missing = (label >= 0).nonzero().flatten(), (label < 0).nonzero().flatten()
    rows, alone = hold_out(label, fraction, 3), hold_out(label[known], fraction, 3)
    for split, each in rows.items():
        assert each[label[each] >= 0].equal(known[alone[split]])
    assert torch.cat([*rows.values()]).sort().values.equal(torch.arange(60))
    assert torch.isin(missing, rows["test"]).sum() == round(fraction * lacking)
    assert all(
        each.equal(other)
        for each, other in zip(rows.values(), hold_out(label, fraction, 3).values(), strict=True)
    )
    drawn = {
        tuple(missing[torch.isin(missing, hold_out(label, fraction, seed)["test"])].tolist())
        for seed in range(5)
    }
    assert len(drawn) > 1 or round(fraction * lacking) == 0, "the seed draws them"


def test_a_split_without_any_label_keeps_the_fraction():
    rows = hold_out(labels(60), 0.2, 0)
    assert [len(each) for each in rows.values()] == [48, 12]
    groups = torch.arange(60) // 3
    rows = hold_out(labels(60), 0.2, 0, groups)
    assert len(rows["test"]) == 12
    assert not {*groups[rows["train"]].tolist()} & {*groups[rows["test"]].tolist()}


@pytest.mark.parametrize("lacking", [1, 7])
def test_groups_stay_whole_where_samples_lack_a_label(lacking):
    """Twelve groups have labels, of which some samples lack one; ten other groups have none."""
    groups = torch.cat([torch.arange(48) // 4, 12 + torch.arange(40) // 4])
    label = torch.cat([LABEL[:48], torch.full((40,), -1)])
    label[torch.arange(lacking) * 5] = -1
    known = label >= 0
    rows, alone = hold_out(label, 0.3, 1, groups), hold_out(label[known], 0.3, 1, groups[known])
    test = {*groups[rows["test"]].tolist()}
    assert not test & {*groups[rows["train"]].tolist()}
    assert {each for each in test if each < 12} == {*groups[known][alone["test"]].tolist()}
    assert len({each for each in test if each >= 12}) == 3


def test_one_group_without_a_label_is_for_training():
    label, groups = torch.tensor([0, 1, 0, 1, -1, -1]), torch.tensor([0, 1, 2, 3, 4, 4])
    assert {4, 5} <= {*hold_out(label, 0.4, 0, groups)["train"].tolist()}


def test_too_few_labels_are_told_as_such():
    label = torch.cat([torch.arange(10) // 2, torch.full((90,), -1)])
    with pytest.raises(ValueError, match="of 10 samples with a label leaves 8 to train on and 2"):
        hold_out(label, 0.2, 0)


@pytest.mark.parametrize("lacking", [1, 7])
def test_evaluators_ignore_samples_without_a_label(lacking):
    generator = torch.Generator().manual_seed(0)
    label = labels(lacking)
    x = torch.randn(60, 5, generator=generator) + 2 * torch.nn.functional.one_hot(label + 1, 5)
    dataset = Features({"features": x, "label": label}, test_fraction=0.25)
    splits = [
        Frozen(each.samples[:], each.metadata) for each in (dataset("train"), dataset("test"))
    ]
    assert sum(len(each.features) for each in splits) == 60
    known = [each.take((each.metadata["label"] >= 0).nonzero().flatten()) for each in splits]
    assert sum(len(each.features) for each in known) == 60 - lacking
    for evaluator in (KNN(k=5), LinearProbe()):
        assert values(evaluator(*splits)) == values(evaluator(*known))


def test_a_class_of_one_sample_is_named_by_all_its_digits():
    with pytest.raises(ValueError, match="class 9007199254740993 has one sample"):
        hold_out(torch.tensor([0, 0, 2**53 + 1]), 0.5, 0)

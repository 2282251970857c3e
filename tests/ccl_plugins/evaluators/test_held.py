"""What features hold of a column is found within the measured samples, of which others name each."""

from __future__ import annotations

import warnings

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from support.measured import values
from torch.nn.functional import one_hot

import ccl_plugins as ccl
from ccl_plugins.evaluators import Held
from ccl_plugins.evaluators.intervals import mean, over_groups
from ccl_plugins.experiments.measure import measure
from ccl_plugins.protocols import Frozen, UndefinedMetric

PROBES = ["linear", "least_squares", "knn"]


def frozen(ids, noise=1.0, seed=0, **columns):
    """Features that tell the class, more or less."""
    generator = torch.Generator().manual_seed(seed)
    x = 3 * one_hot(ids, 12) + noise * torch.randn(len(ids), 12, generator=generator)
    return Frozen(x, {"plate": ids, **columns})


TRAIN, TEST = frozen(torch.arange(90) % 6), frozen(6 + torch.arange(90) % 3, seed=1)


@pytest.mark.parametrize("probe", PROBES)
def test_a_column_whose_classes_training_lacks_is_read_within_the_test_samples(probe):
    (found,) = Held("plate", probe)(TRAIN, TEST)
    assert (found.name, found.column, found.direction) == ("held-plate/top1", "plate", "higher")
    assert found.value > 0.9
    assert found.chance == pytest.approx(1 / 3)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.samples == 90
    assert "whose plate is named right" in found.sentence
    assert Held("plate", probe)(TEST, TEST) == [found]  # training is not read


@pytest.mark.parametrize("probe", PROBES)
def test_shuffled_features_hold_what_chance_gives(probe):
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    ids = 6 + (torch.arange(600) % 5).clamp_max(3)  # of four, one twice as often
    told = frozen(ids, dose=ids + torch.rand(600))
    shuffled = Frozen(told.features[order], told.metadata)
    (found,) = Held("plate", probe)(TRAIN, shuffled)
    assert found.chance == pytest.approx(0.4)
    assert found.value == pytest.approx(0.4, abs=0.1)
    (found,) = Held("dose", probe)(TRAIN, shuffled)
    assert (found.name, found.chance) == ("held-dose/r2", 0.0)
    assert found.value == pytest.approx(0, abs=0.15)
    (found,) = Held("dose", probe)(TRAIN, told)
    assert found.value > 0.5


def test_the_folds_are_those_of_scikit_learn():
    test = frozen(torch.arange(100) % 4, noise=2.5)
    x, ids = test.features.double().numpy(), test.metadata["plate"].numpy()
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    right = 0
    for fit, out in folds.split(x, ids):
        # Of the same penalty: 0.001 of the variance of the samples that it is fitted to.
        reg = 1e-3 * torch.from_numpy(x[fit]).var(0, correction=0).mean().item()
        model = LogisticRegression(C=1 / (2 * reg * len(fit)), max_iter=1000, tol=1e-8)
        right += (model.fit(x[fit], ids[fit]).predict(x[out]) == ids[out]).sum()
    assert values(Held("plate", folds=4)(test, test))["held-plate/top1"] == right / 100


def test_numbers_are_predicted_from_other_folds():
    from sklearn.metrics import r2_score
    from sklearn.neighbors import KNeighborsRegressor

    test = frozen(torch.arange(100) % 4, dose=torch.rand(100, generator=torch.Generator()))
    x = torch.nn.functional.normalize(test.features.double(), dim=1).numpy()
    y = test.metadata["dose"].double().numpy()
    model = KNeighborsRegressor(
        7, metric="cosine", weights=lambda far: torch.from_numpy((1 - far) / 0.1).exp().numpy()
    )
    folds = KFold(5, shuffle=True, random_state=0)
    expected = r2_score(y, cross_val_predict(model, x, y, cv=folds))
    found = values(Held("dose", "knn", k=7)(test, test))["held-dose/r2"]
    assert found == pytest.approx(expected)


def test_a_class_of_one_sample_is_left_out_and_counted():
    ids = torch.cat([torch.arange(60) % 2, torch.tensor([2, 3, 3, -1])])
    test = frozen(ids.clamp_min(0))
    test.metadata["plate"] = ids
    said = (
        "column 'plate', within the measured samples: 1 of 63 samples are left out, the only ones"
    )
    with pytest.warns(UserWarning, match=said):
        (found,) = Held("plate")(test, test)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Held("plate")(test, test) == [found]  # it is said once
    assert found.samples == 62
    assert found.chance == pytest.approx(30 / 62)
    assert found.sentence.endswith("; 1 of 63 samples are left out, the only ones of their classes")


def test_intervals_are_over_the_groups_of_those_that_are_measured():
    groups = torch.arange(120) // 6
    test = frozen(torch.cat([torch.arange(119) % 3, torch.tensor([9])]), noise=3.0)
    with pytest.warns(UserWarning, match="1 of 120"):
        (alone,) = Held("plate")(test, test)
    with over_groups(groups):
        (found,) = Held("plate")(test, test)
        assert mean(groups[:119] > 3)["interval"] is None  # of another part nothing is known
    assert found.value == alone.value
    assert found.interval is not None
    assert found.interval != alone.interval


def test_fewer_folds_are_made_of_few_samples():
    pairs = frozen(torch.arange(24) // 2, noise=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scikit-learn wonders at many classes
        for probe in PROBES:
            assert values(Held("plate", probe)(pairs, pairs)) == {"held-plate/top1": 1.0}


def test_what_folds_do_not_define_is_said():
    single = frozen(torch.arange(6))
    with pytest.raises(
        UndefinedMetric, match="no class of column 'plate' has two measured samples"
    ):
        Held("plate")(single, single)
    one = frozen(torch.zeros(6).long(), dose=torch.ones(6))
    with pytest.raises(UndefinedMetric, match="'plate' has the same value, 0, in all of 6"):
        Held("plate")(one, one)
    with pytest.raises(UndefinedMetric, match="'dose' has the same value"):
        Held("dose")(one, one)
    two = Frozen(torch.eye(2), {"dose": torch.rand(2)})
    with pytest.raises(UndefinedMetric, match="'dose' has 2 measured samples"):
        Held("dose")(two, two)
    with pytest.raises(ValueError, match="'size'"):
        Held("size")(one, one)


def test_that_few_groups_give_no_interval_is_said_once():
    pipeline = ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=_columns(TRAIN), test=_columns(TEST)),
        backbone=ccl.backbone("mlp", in_features=12),
        objective="infonce",
        method="simclr",
        transform="noise",
        evaluate=[ccl.evaluator("held", column="plate"), ccl.evaluator("held")],
    )
    groups = TEST.metadata["plate"]
    test = Frozen(TEST.features, _columns(TEST), groups=groups)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            found = measure(pipeline, TRAIN, test, pipeline.chosen_evaluators)
    assert found["held-plate/top1"].value > 0.9
    assert found["held-plate/top1"].interval is None
    assert found["held-plate/top1"].within
    assert found["held/top1"].value < 0.7
    lines = [str(each.message) for each in said]
    assert lines == [
        "the measured samples are of 3 groups: fewer than 10 give no interval (of 90 samples)"
    ]


def _columns(data):
    return {"features": data.features, "label": torch.arange(90) % 2, **data.metadata}

from __future__ import annotations

import logging
import warnings
from dataclasses import replace

import pytest
import torch
from support import oracle
from support.measured import values
from torch.nn import functional

import ccl_plugins as ccl
from ccl_plugins.evaluators import (
    KNN,
    MLP,
    Clustering,
    Fairness,
    FewShot,
    FineTune,
    LinearAdam,
    LinearProbe,
    LinearSGD,
    Regression,
    linear,
)
from ccl_plugins.evaluators.intervals import over_groups
from ccl_plugins.evaluators.knn import nearest
from ccl_plugins.evaluators.linear import softmax_regression
from ccl_plugins.evaluators.regression import PENALTIES, ridge_regression
from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.protocols import Frozen, Images, UndefinedMetric


def frozen(features, **columns):
    return Frozen(features, columns)


def blobs(n=90, f=5, classes=3, seed=0):
    """Overlapping classes, with a color that depends linearly on the features."""
    g = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % classes
    x = torch.randn(n, f, generator=g)
    x = x + 1.5 * functional.one_hot(label, f)
    color = 0.5 + x @ torch.linspace(-0.1, 0.1, 3 * f).reshape(f, 3)
    return frozen(x, label=label, digit=label, color=color)


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def objective(fit, x, y, reg):
    cross_entropy = functional.cross_entropy(x @ fit.weight.T + fit.bias, y)
    return cross_entropy + reg * fit.weight.square().sum()


def test_the_linear_probe_reaches_the_stored_optimum():
    case = oracle.case("linear_probe_lbfgs")
    data, reg = oracle.tensors(case["inputs"]), case["params"]["reg_weight"]
    fit = softmax_regression(data["x"], data["y"], reg=reg, tol=1e-8)
    value = objective(fit, data["x"], data["y"], reg)
    torch.testing.assert_close(value, number(case["expected_paper"]), rtol=1e-9, atol=0)
    assert fit.converged


@pytest.mark.parametrize("classes", [2, 3])
def test_the_linear_probe_is_at_a_stationary_point_of_its_objective(classes):
    data = blobs(classes=classes)
    x, y = data.features.double() * 2 + 10, data.metadata["label"]  # far from centered
    fit = softmax_regression(x, y, reg=1e-2, tol=1e-8)
    for leaf in (fit.weight, fit.bias):
        leaf.requires_grad_()
    objective(fit, x, y, 1e-2).backward()
    zeros = torch.zeros_like(fit.weight)
    torch.testing.assert_close(fit.weight.grad, zeros, rtol=0, atol=1e-6)
    torch.testing.assert_close(fit.bias.grad, zeros[:, 0], rtol=0, atol=1e-6)


def test_the_penalty_is_chosen_on_a_validation_part_of_train():
    train, test = blobs(n=200, f=40, seed=0), blobs(n=90, f=40, seed=1)
    x, y = train.features.double(), train.metadata["label"]
    rows, held = validation_rows(200)
    unit = x.var(0, correction=0).mean().item()
    right = {}
    for penalty in sorted(linear.PENALTIES):
        fit = softmax_regression(x[rows], y[rows], reg=penalty * unit)
        right[penalty] = (fit.predict(x[held]) == y[held]).double().mean().item()
    assert len(set(right.values())) > 2
    best = max(penalty for penalty in right if right[penalty] == max(right.values()))
    chosen = values(LinearProbe(reg="validation")(train, test))
    assert chosen == values(LinearProbe(reg=best * unit)(train, test))
    fit = linear.fit_probe(x, y, "validation", 1000, "label")
    torch.testing.assert_close(fit.weight, softmax_regression(x, y, reg=best * unit).weight)


def test_the_penalty_does_not_depend_on_the_test_split(monkeypatch):
    train, fits = blobs(n=200, f=40), []
    fitted = linear.softmax_regression
    monkeypatch.setattr(
        linear, "softmax_regression", lambda *a, **k: fits.append(k["reg"]) or fitted(*a, **k)
    )
    for seed in (1, 2):
        LinearProbe(reg="validation")(train, blobs(f=40, seed=seed))
    half = len(fits) // 2
    assert fits[:half] == fits[half:]
    assert half == len(linear.PENALTIES) + 1


def test_a_reg_that_is_neither_a_number_nor_a_rule_is_quoted():
    with pytest.raises(ValueError, match=r"reg must be .* not 0\.0"):
        LinearProbe(reg=0.0)
    record = ccl.evaluator("linear", reg="validation").record()
    assert record["reg"] == "validation"
    with pytest.raises(ccl.InvalidParameter, match="reg must be"):
        ccl.evaluator("linear", reg="test")


def test_class_ids_need_not_be_consecutive():
    train, test = blobs(seed=0), blobs(seed=1)
    strange = torch.tensor([7, 2, 40])
    renamed = [frozen(d.features, label=strange[d.metadata["label"]]) for d in (train, test)]
    for evaluator in (LinearProbe(), KNN(k=20)):
        assert values(evaluator(*renamed)) == values(evaluator(train, test))


def images(n):
    pixels = torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(n))
    read = lambda pieces: (pixels[rows] for rows in pieces)  # noqa: E731
    return Images(torch.arange(n), read, network)


def network():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4))
    model.num_features = 4
    return model


NAMING = [
    LinearProbe(column="plate", balanced=True),
    LinearProbe(column="plate", solver="least_squares"),
    KNN(column="plate", k=5),
    MLP("plate"),
    LinearSGD(column="plate", epochs=3),
    LinearAdam(column="plate", epochs=3),
    FewShot(column="plate", draws=2),
    FineTune(column="plate", epochs=1),
    Clustering(column="plate"),
    Clustering(k=3, column="plate"),
    Fairness("group", target="plate"),
]
"""Evaluators that find no other classes than those of training."""


@pytest.fixture(params=NAMING, ids=lambda each: type(each).__name__)
def naming(request):
    return request.param


def plates(train, test):
    """Splits with so many plates of 30 samples, numbered on; each has two groups."""
    splits = []
    for some, seed in ((train, 0), (test, 1)):
        ids = torch.tensor(some).repeat_interleave(30)
        x = blobs(len(ids), seed=seed).features + 2 * functional.one_hot(ids % 5, 5)
        columns = {"plate": ids, "group": torch.arange(len(ids)) % 2}
        splits.append(Frozen(x, columns, images(len(ids))))
    return splits


def test_of_classes_that_training_lacks_there_is_no_number(naming):
    with pytest.raises(UndefinedMetric, match=r"no sample of the 2 classes that 60 .* 'plate'"):
        naming(*plates([0, 1, 2], [3, 4]))
    with pytest.raises(ValueError, match=r"two classes|k=1 clusters"):
        naming(*plates([0, 0], [3, 4]))
    train, test = plates([0, 1, 2], [3, 3])
    test.metadata["plate"][:20] = -1
    with pytest.raises(UndefinedMetric, match="no sample of the one class that 40 measured"):
        naming(train, test)


def test_classes_that_training_has_are_measured_alone_and_the_others_counted(naming):
    train, test = plates([0, 1, 2], [1, 3, 2, 1, 4])
    test.metadata["plate"][:5] = -1
    rows = torch.isin(test.metadata["plate"], torch.tensor([-1, 1, 2])).nonzero().flatten()
    with pytest.warns(UserWarning, match="column 'plate': 60 of 150 samples are left out, of 2 cl"):
        found = naming(train, test)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        again = naming(train, test)
    expected = naming(train, test.take(rows))
    assert found == again
    for mine, its in zip(found, expected, strict=True):
        more = "60 of 150 samples are left out, of 2 classes that training lacks"
        assert mine == replace(its, sentence=f"{its.sentence}; {more}")
        assert mine.samples == 85
    if "top1" in found[0].name:
        assert found[0].chance == pytest.approx(55 / 85)


def test_intervals_are_over_the_groups_of_the_classes_that_training_has():
    train, test = plates([0, 1, 2], [1, 3, 2, 1, 4])
    test.features.normal_(generator=torch.Generator().manual_seed(0))
    groups = torch.arange(150) // 3
    rows = torch.isin(test.metadata["plate"], torch.tensor([1, 2])).nonzero().flatten()
    with over_groups(groups), pytest.warns(UserWarning, match="60 of 150"):
        (found,) = KNN(column="plate", k=5)(train, test)
    with over_groups(groups[rows]):
        (expected,) = KNN(column="plate", k=5)(train, test.take(rows))
    assert found.interval == expected.interval is not None


def test_truth_values_are_classes():
    train, test = blobs(classes=2), blobs(classes=2, seed=1)
    ids, bools = (
        frozen(test.features, label=test.metadata["label"].to(t)) for t in (torch.int64, torch.bool)
    )
    for evaluator in (LinearProbe(), KNN(k=5)):
        assert evaluator(train, bools) == evaluator(train, ids)


def test_numbers_need_no_class_of_training():
    train, test = blobs(), blobs(seed=1)
    other = frozen(test.features, color=test.metadata["color"] + 7)
    for evaluator in (Regression(), MLP("color")):
        assert [each.name for each in evaluator(train, other)]


def test_a_test_split_of_one_class_is_told(caplog):
    train, test = blobs(), blobs()
    one = test.take((test.metadata["label"] == 2).nonzero().flatten())
    for evaluator, name in ((LinearProbe(), "linear"), (KNN(k=5), "knn")):
        caplog.clear()
        assert values(evaluator(train, one))[f"{name}/top1"] > 0.5
        assert f"all 30 measured samples have the class 2 in 'label': {name}/top1" in caplog.text


def test_knn_equals_the_stored_predictions():
    case = oracle.case("knn_weighted_top1")
    data, params = oracle.tensors(case["inputs"]), case["params"]
    k, temperature = params["k"], params["temperature"]
    predicted = nearest(data["query"], data["bank"], data["bank_labels"], k, temperature)
    assert predicted.tolist() == case["extras"]["predictions"]
    metrics = values(
        KNN(k, temperature)(
            frozen(data["bank"], label=data["bank_labels"]),
            frozen(data["query"], label=data["query_labels"]),
        )
    )
    torch.testing.assert_close(number(100 * metrics["knn/top1"]), number(case["expected_paper"]))


@pytest.mark.parametrize(("classes", "k"), [(10, 50), (300, 20)])
def test_knn_equals_that_of_lightly(classes, k):
    from lightly.utils.benchmarking.knn import knn_predict

    draw = torch.Generator().manual_seed(0)
    bank, x = (torch.randn(n, 16, generator=draw, dtype=torch.float64) for n in (400, 90))
    ids = torch.arange(400) % classes
    unit = torch.nn.functional.normalize(bank, dim=1)
    rows = torch.nn.functional.normalize(x, dim=1)
    expected = knn_predict(rows, unit.T, ids, classes, knn_k=k, knn_t=0.07)[:, 0]
    torch.testing.assert_close(nearest(x, bank, ids, k, 0.07), expected)


def test_a_hundred_thousand_classes_are_measured_or_refused_with_the_cure():
    many = torch.arange(100_000)
    bank = torch.randn(len(many), 8, generator=torch.Generator().manual_seed(0))
    frozen = Frozen(bank, {"label": many})
    test = Frozen(bank[:50], {"label": many[:50]})
    assert values(KNN(k=5)(frozen, test)) == {"knn/top1": 1.0}
    for solver in ("lbfgs", "least_squares"):
        with pytest.raises(ValueError, match=r"100000 classes of 'label' .* 75 GiB: measure knn"):
            LinearProbe(solver=solver)(frozen, test)


def test_knn_votes_fit_into_float64_at_its_least_temperature():
    train, test = blobs(seed=0), blobs(seed=1)
    nearest_one = values(KNN(k=1)(train, test))
    assert values(KNN(k=20, temperature=0.002)(train, test)).keys() == nearest_one.keys()
    same = frozen(train.features, label=train.metadata["label"])
    assert values(KNN(k=2, temperature=0.002)(train, same)) == {"knn/top1": 1.0}


def test_regression_equals_the_stored_error():
    case = oracle.case("color_mse_probe")
    data = oracle.tensors(case["inputs"])
    metrics = values(
        Regression(reg=case["params"]["reg_weight"], eight_bit=False)(
            frozen(data["x_train"], color=data["y_train"]),
            frozen(data["x_test"], color=data["y_test"]),
        )
    )
    torch.testing.assert_close(
        number(metrics["color/mse"]), number(case["expected_paper"]), rtol=1e-10, atol=0
    )


def test_regression_metrics_follow_their_definitions():
    train, test = blobs(seed=0), blobs(seed=1)
    noise = 0.1 * torch.randn(90, 3, generator=torch.Generator().manual_seed(2))
    test = frozen(test.features, color=test.metadata["color"] + noise)
    metrics = values(Regression()(train, test))
    torch.testing.assert_close(
        number(metrics["color/mse"]), noise.double().square().mean(), rtol=1e-3, atol=0
    )
    assert metrics["color/mse255"] == pytest.approx(255**2 * metrics["color/mse"], rel=1e-12)
    total = (test.metadata["color"] - test.metadata["color"].mean(0)).square().sum(0)
    expected = (1 - noise.square().sum(0) / total).mean().double()
    torch.testing.assert_close(number(metrics["color/r2"]), expected, rtol=1e-3, atol=0)


def test_regression_takes_a_single_number_and_collinear_features():
    train, test = blobs(seed=0), blobs(seed=1)
    doubled = [
        frozen(torch.cat([d.features, d.features], 1), pose=d.metadata["color"][:, 0])
        for d in (train, test)
    ]
    metrics = values(Regression("pose")(*doubled))
    assert metrics.keys() == {"pose/mse", "pose/r2"}
    torch.testing.assert_close(number(metrics["pose/r2"]), number(1.0), rtol=0, atol=1e-3)
    assert "pose/mse255" in values(Regression("pose", eight_bit=True)(*doubled))


def weak_signal(n, f=512, signal=1.0, seed=0):
    """Features of which the column depends on one alone, and mostly on noise."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, f, generator=g)
    return frozen(x, age=signal * x[:, 0] + torch.randn(n, generator=g))


def test_the_regression_chooses_its_penalty_on_the_training_samples():
    train, test = weak_signal(520, signal=0.3), weak_signal(400, signal=0.3, seed=1)
    assert values(Regression("age", reg=1e-6)(train, test))["age/r2"] < -12
    assert values(Regression("age")(train, test))["age/r2"] > -0.05
    clear = [weak_signal(n, signal=100.0, seed=n) for n in (600, 400)]
    assert values(Regression("age")(*clear))["age/r2"] > 0.99


def test_the_chosen_penalty_is_the_one_with_the_least_error_on_left_out_samples():
    train, test = weak_signal(40, f=6), weak_signal(20, f=6, seed=1)
    x, y = train.features.double(), train.metadata["age"].double()[:, None]
    variance = x.var(0, correction=0).mean()

    def left_out(penalty):
        rest = [torch.arange(len(x)) != row for row in range(len(x))]
        return sum(
            (ridge_regression(x[r], y[r], x[~r], reg=penalty * variance * len(x) / 39) - y[~r])
            .square()
            .item()
            for r in rest
        )

    best = min(PENALTIES, key=left_out)
    expected = values(Regression("age", reg=float(best * variance))(train, test))
    assert values(Regression("age")(train, test)) == pytest.approx(expected, rel=1e-9)
    assert PENALTIES[0] < best < PENALTIES[-1]


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_probes_do_not_depend_on_the_unit_of_the_features(scale):
    train, test = blobs(seed=0), blobs(seed=1)
    scaled = [frozen(d.features.double() * scale, **d.metadata) for d in (train, test)]
    for evaluator in (Regression(), LinearProbe()):
        expected = values(evaluator(train, test))
        assert values(evaluator(*scaled)) == pytest.approx(expected, rel=1e-6), evaluator


def test_features_without_variance_predict_the_mean():
    train, test = blobs(seed=0), blobs(seed=1)
    flat = [frozen(torch.ones(90, 5), **d.metadata) for d in (train, test)]
    mean = train.metadata["color"].double().mean(0)
    expected = (test.metadata["color"] - mean).square().mean().item()
    assert values(Regression()(*flat))["color/mse"] == pytest.approx(expected)
    assert values(LinearProbe()(*flat)) == {"linear/top1": pytest.approx(1 / 3)}


def test_another_column_shows_in_the_metric():
    train, test = blobs(seed=0), blobs(seed=1)
    for evaluator in (LinearProbe, KNN):
        (name, value), *_ = values(evaluator(**_small(evaluator))(train, test)).items()
        (other, same), *_ = values(
            evaluator(column="digit", **_small(evaluator))(train, test)
        ).items()
        assert other == name.replace("/", "-digit/")
        assert same == value


def _small(evaluator):
    return {"k": 20} if evaluator is KNN else {}


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_the_defaults_converge_on_features_of_usual_size_without_a_warning(shift, caplog):
    g = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(1437, 84, generator=g).relu() + shift,
        torch.randint(10, (1437,), generator=g),
    )
    data = frozen(x, label=y, color=torch.rand(1437, 3, generator=g))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for evaluator in (LinearProbe(), KNN(), Regression()):
            evaluator(data, data)
    assert caplog.records == []


def test_a_probe_that_did_not_converge_says_so(caplog):
    train, test = blobs(seed=0), blobs(seed=1)
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        LinearProbe(max_iter=1)(train, test)
    assert "max_iter=1" in caplog.text


def test_a_missing_column_is_answered_by_those_there_are():
    for evaluator in (LinearProbe(column="x"), KNN(k=5, column="x"), Regression("x")):
        with pytest.raises(ValueError, match="no column 'x'; it has label, digit, color"):
            evaluator(blobs(), blobs())


def test_a_wrong_measure_names_the_right_evaluator():
    for evaluator in (LinearProbe(column="color"), KNN(k=5, column="color")):
        with pytest.raises(ValueError, match="'regression'"):
            evaluator(blobs(), blobs())
    with pytest.raises(ValueError, match="'linear'"):
        Regression("label")(blobs(), blobs())


def test_features_and_values_that_are_not_finite_are_named():
    broken, good = blobs(), blobs()
    broken.features[3, 1] = float("nan")
    for evaluator in (LinearProbe(), KNN(k=5), Regression()):
        with pytest.raises(ValueError, match=r"row 3 \(from 0\) are not finite"):
            evaluator(broken, good)
        with pytest.raises(ValueError, match=r"row 3 \(from 0\) are not finite"):
            evaluator(good, broken)
    good.metadata["color"][5] = float("inf")
    with pytest.raises(ValueError, match="infinite in row 5"):
        Regression()(good, blobs())


def test_samples_without_a_value_are_left_out_and_counted(caplog):
    whole, holes = blobs(), blobs()
    holes.metadata["label"][:20] = -1
    holes.metadata["color"][:20, 1] = float("nan")
    part = frozen(whole.features[20:], **{k: v[20:] for k, v in whole.metadata.items()})
    for evaluator in (LinearProbe(), KNN(k=5), Regression()):
        caplog.clear()
        assert values(evaluator(holes, holes)) == values(evaluator(part, part))
        assert caplog.text.count("missing in 20 of 90 samples") == 2
    with pytest.raises(ValueError, match="'label' has no value for any of 90 samples"):
        LinearProbe()(frozen(whole.features, label=torch.full((90,), -1)), whole)


def test_shapes_that_do_not_belong_together_are_quoted():
    data = blobs()
    with pytest.raises(ValueError, match="has 4 rows, but the features have 90"):
        LinearProbe()(frozen(data.features, label=torch.arange(4)), data)
    with pytest.raises(ValueError, match=r"\(0, 5\)"):
        LinearProbe()(frozen(torch.zeros(0, 5), label=torch.zeros(0, dtype=torch.long)), data)
    with pytest.raises(ValueError, match="3 entries a sample in training and 1"):
        Regression()(data, frozen(data.features, color=data.features[:, 0]))


def test_a_class_that_is_held_out_whole_leaves_the_penalty_as_it_is():
    from ccl_plugins.metadata.groups import validation_rows

    train, test = blobs(classes=2), blobs(classes=2, seed=1)
    label = torch.zeros(90).long()
    label[validation_rows(90)[1]] = 1
    train = frozen(train.features, label=label)
    chosen, default = (LinearProbe(reg=reg)(train, test) for reg in ("validation", None))
    assert chosen == default


def test_too_few_neighbors_are_refused():
    data = blobs()
    with pytest.raises(ValueError, match="k=200 neighbors of only 90"):
        KNN(k=200)(data, data)


@pytest.mark.parametrize("value", [1e38, -1e19, 1e200])
def test_features_too_large_to_compare_are_refused_by_every_probe(value):
    train, test = blobs(seed=0), blobs(seed=1)
    x = train.features.double()
    x[7, 4] = value
    for evaluator in (LinearProbe(), KNN(k=5), Regression()):
        with pytest.raises(
            ValueError, match=r"feature 4 of row 7 \(from 0\) is -?1e.* hide all others"
        ):
            evaluator(frozen(x, **train.metadata), test)
        with pytest.raises(ValueError, match="feature 4 of row 7"):
            evaluator(train, frozen(x, **train.metadata))


def test_neighbors_are_not_chosen_by_cosines_that_are_all_equal():
    train = blobs(seed=0)
    x = train.features.double()
    x[:, 4] = 1e16
    with pytest.raises(ValueError, match=r"feature 4 is 1e\+16 in every row and hides the others"):
        KNN(k=5)(frozen(x, **train.metadata), blobs(seed=1))
    collapsed = frozen(torch.ones(90, 5), **train.metadata)
    assert values(KNN(k=5)(collapsed, collapsed))["knn/top1"] < 0.5

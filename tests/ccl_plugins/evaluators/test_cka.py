"""Centered kernel alignment with the features before training."""

from __future__ import annotations

import pytest
import torch
from support.vector_pipeline import make_pipeline

from ccl_plugins.evaluators import CKA
from ccl_plugins.evaluators.cka import hsic
from ccl_plugins.protocols import Frozen, UndefinedMetric


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


X, Y = normal(12, 4, seed=0), normal(12, 7, seed=1)
Y[:, :3] += X[:, :3]


def frozen(x, original):
    return Frozen(x, {"label": torch.arange(len(x)) % 2}, original=original)


def measured(x, y, **options):
    (found,) = CKA(**options)(frozen(x, None), frozen(x, y))
    return found


def slow(x, y, unbiased):
    """From n x n matrices, as the papers write it."""
    n = len(x)
    k, l = x @ x.T, y @ y.T  # noqa: E741  # the papers' letters
    if not unbiased:
        h = torch.eye(n, dtype=torch.float64) - 1 / n
        return (k @ h @ l @ h).trace() / (n - 1) ** 2
    k, l = k - k.diag().diag(), l - l.diag().diag()  # noqa: E741
    total = (k @ l).trace() + k.sum() * l.sum() / (n - 1) / (n - 2) - 2 / (n - 2) * (k @ l).sum()
    return total / (n * (n - 3))


@pytest.mark.parametrize("unbiased", [True, False])
def test_hsic_and_that_without_each_sample_are_those_of_matrices(unbiased):
    found = hsic(X, Y, unbiased)
    kept = [slice(None), *([j for j in range(12) if j != i] for i in range(12))]
    expected = torch.stack([slow(X[rows], Y[rows], unbiased) for rows in kept])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_the_number_is_that_of_matrices(estimator):
    unbiased = estimator == "unbiased"
    found = measured(X, Y, estimator=estimator)
    own = slow(X, X, unbiased) * slow(Y, Y, unbiased)
    assert found.value == pytest.approx((slow(X, Y, unbiased) / own.sqrt()).item(), rel=1e-9)
    low, high = found.interval
    assert low < found.value < high <= 1
    assert found.samples == 12
    assert found.direction == "higher"


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_turned_scaled_and_shifted_features_are_the_same(estimator):
    turn = torch.linalg.qr(normal(4, 4, seed=2))[0]
    found = measured(1e4 * X @ turn + 5, X, estimator=estimator)
    assert found.value == pytest.approx(1)
    assert found.interval == pytest.approx((1, 1))


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_the_chance_level_is_the_mean_over_orders_of_the_samples(estimator):
    chance = measured(X, Y, estimator=estimator).chance
    orders = [torch.randperm(12, generator=torch.Generator().manual_seed(i)) for i in range(400)]
    values = torch.tensor([measured(X, Y[order], estimator=estimator).value for order in orders])
    assert abs(values.mean().item() - chance) < 4 * values.std().item() / 20


def test_the_interval_holds_what_other_samples_give():
    x = normal(20000, 5, seed=3)
    y = x + normal(20000, 5, seed=4)
    whole = measured(x, y).value
    parts = [measured(a, b).interval for a, b in zip(x.split(200), y.split(200), strict=True)]
    held = sum(low <= whole <= high for low, high in parts)
    assert 88 <= held <= 100


def test_only_some_samples_are_compared():
    few = measured(normal(50, 4, seed=5), normal(50, 4, seed=6), samples=20)
    assert few.samples == 20


def test_features_that_do_not_differ_and_too_few_samples_are_named():
    with pytest.raises(UndefinedMetric, match="the same for all samples"):
        measured(torch.ones(12, 3), Y)
    with pytest.raises(UndefinedMetric, match="evaluate names cka"):
        measured(X, None)
    with pytest.raises(ValueError, match="there are 4 before and 4 after"):
        measured(X[:4], Y[:4])
    with pytest.raises(ValueError, match="there are 11 before and 12 after"):
        measured(X, Y[:11])


def test_a_part_of_the_samples_has_its_own_features_before_training():
    some = frozen(X, Y).take(torch.tensor([3, 1]))
    torch.testing.assert_close(some.original, Y[[3, 1]])


def test_a_run_keeps_the_features_before_training(tmp_path):
    run = make_pipeline(evaluate=["knn", "cka"]).fit(out=tmp_path / "run", progress=False)
    assert run.before["features/cka"] == pytest.approx(1)
    after = run.evaluate()["features/cka"]
    assert after < 0.9999
    assert run.measure(CKA())["features/cka"].value == after
    assert run.measure(CKA("biased"))["features/cka"].value < 0.9999
    with pytest.warns(
        UserWarning, match="left out of the choice between runs: it reads the features"
    ):
        assert "features/cka" not in run.validate()
    make_pipeline().fit(out=tmp_path / "run", progress=False, overwrite=True)
    assert not (tmp_path / "run" / "original.safetensors").exists()

"""Evaluators of projections and the quick solvers equal slow loops written from their equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from ccl_plugins.evaluators import (
    KNN,
    Alignment,
    ConditionalEntropy,
    LinearProbe,
    RankMe,
    Regression,
    Uniformity,
)
from ccl_plugins.evaluators.conditional_entropy import conditional_entropy
from ccl_plugins.evaluators.intervals import without_intervals
from ccl_plugins.evaluators.least_squares import PENALTIES, least_squares
from ccl_plugins.protocols import Frozen, UndefinedMetric
from ccl_plugins.testing.evaluators import splits

GENERATOR = torch.Generator().manual_seed(0)
VIEWS = normalize(torch.randn(2, 30, 7, generator=GENERATOR), dim=2)
X = torch.randn(30, 7, generator=GENERATOR, dtype=torch.float64)
NEW = torch.randn(30, 7, generator=GENERATOR, dtype=torch.float64)
OF_PROJECTIONS = [RankMe(), Alignment(), Uniformity(), ConditionalEntropy()]


def frozen(views=VIEWS, features=None):
    return Frozen(X.float() if features is None else features, {}, projections=views)


def value(evaluator, given):
    (found,) = evaluator(frozen(), given)
    assert found.samples is not None
    return found.value


def distance(i, j, view=0):
    return float((VIEWS[0, i] - VIEWS[view, j]).square().sum())


def test_alignment_is_the_mean_squared_distance_of_two_views():
    slow = sum(distance(i, i, 1) for i in range(30)) / 30
    torch.testing.assert_close(value(Alignment(), frozen()), slow, rtol=1e-5, atol=0)
    assert value(Alignment(), frozen(VIEWS[:1].expand(2, -1, -1))) == 0


def test_uniformity_is_the_log_of_the_mean_kernel_of_two_samples():
    kernels = [math.exp(-2 * distance(i, j)) for i in range(30) for j in range(i)]
    slow = math.log(sum(kernels) / len(kernels))
    torch.testing.assert_close(value(Uniformity(), frozen()), slow, rtol=1e-5, atol=0)
    collapsed = torch.ones(1, 5, 4) / 2
    assert abs(value(Uniformity(), frozen(collapsed))) < 1e-6
    (some,) = Uniformity(samples=8)(frozen(), frozen())
    assert some.samples == 8


def test_the_conditional_entropy_is_the_mean_over_batches():
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))[:24].view(-1, 8)
    slow = sum(float(conditional_entropy(VIEWS[0, rows], 0.5)) for rows in order) / 3
    evaluator = ConditionalEntropy(t_minus=0.5, batch=8)
    torch.testing.assert_close(value(evaluator, frozen()), slow)
    whole = float(conditional_entropy(VIEWS[0], 2.0))
    torch.testing.assert_close(value(ConditionalEntropy(), frozen()), whole, rtol=1e-5, atol=0)


@pytest.mark.parametrize("of", ["projections", "features"])
def test_rankme_is_the_exponential_of_the_entropy_of_the_singular_values(of):
    x = VIEWS[0].double() if of == "projections" else X - X.mean(0)
    sigma = np.linalg.svd(x.numpy(), compute_uv=False)
    p = sigma / sigma.sum() + 1e-7
    slow = math.exp(-sum(each * math.log(each) for each in p))
    torch.testing.assert_close(value(RankMe(of), frozen()), slow, rtol=1e-5, atol=0)


def test_the_rank_is_one_of_a_line_and_all_of_a_ball():
    line = VIEWS[:, :1].expand(-1, 30, -1)
    ball = torch.eye(6).repeat(2, 1, 1)
    torch.testing.assert_close(value(RankMe(), frozen(line)), 1.0, atol=1e-3, rtol=0)
    torch.testing.assert_close(value(RankMe(), frozen(ball)), 6.0, atol=1e-4, rtol=0)


def test_a_single_sample_has_no_rank():
    with pytest.raises(UndefinedMetric, match="two samples or more"):
        value(RankMe("features"), Frozen(X[:1], {}))


@pytest.mark.parametrize("evaluator", OF_PROJECTIONS, ids=lambda each: type(each).__name__)
def test_what_projections_do_not_define_is_said(evaluator):
    with pytest.raises(ValueError, match="have no projections of views"):
        evaluator(frozen(), frozen(None))
    with pytest.raises(UndefinedMetric, match="of 1 samples are too few"):
        evaluator(frozen(), frozen(VIEWS[:, :1]))
    with pytest.raises(ValueError, match="must be finite"):
        evaluator(frozen(), frozen(VIEWS.log()))


def test_projections_are_taken_with_their_samples():
    rows = torch.tensor([3, 1])
    torch.testing.assert_close(frozen().take(rows).projections, VIEWS[:, rows])


def slow_probe(x, y):
    """The penalty of least generalized cross-validation, from the hat matrix, and its prediction."""
    n, f = x.shape
    mean, xc = x.mean(0), x - x.mean(0)
    unit_reg = float((xc.T @ xc / n).diagonal().mean())
    best = None
    for penalty in PENALTIES:
        inverse = torch.linalg.inv(xc.T @ xc / n + penalty * unit_reg * torch.eye(f).double())
        hat = xc @ inverse @ xc.T / n + torch.ones(n, n).double() / n
        left = (y - hat @ y).square().sum() / n
        score = float(left / (1 - hat.trace() / n) ** 2)
        if best is None or score < best[0]:
            weight = inverse @ xc.T @ (y - y.mean(0)) / n
            best = (score, lambda q, w=weight: (q - mean) @ w + y.mean(0))
    return best[1]


@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
def test_least_squares_are_ridge_regression_with_the_penalty_of_cross_validation(noise):
    generator = torch.Generator().manual_seed(2)
    y = X @ torch.randn(7, 3, generator=generator).double() + 1
    y = y + noise * torch.randn(30, 3, generator=generator).double()
    weight, bias = least_squares(X, y)
    torch.testing.assert_close(NEW @ weight + bias, slow_probe(X, y)(NEW), atol=1e-5, rtol=1e-5)


def test_a_penalty_keeps_more_features_than_samples_from_being_learned_by_heart():
    generator = torch.Generator().manual_seed(0)
    x, new = (torch.randn(n, 80, generator=generator) for n in (60, 500))
    columns = [{"noise": torch.randn(n, generator=generator)} for n in (60, 500)]
    (r2, *_) = Regression("noise", reg="gcv")(Frozen(x, columns[0]), Frozen(new, columns[1]))
    assert r2.value > -0.5


def test_the_quick_solvers_are_about_as_good_as_the_usual_ones():
    for usual, quick in (
        (LinearProbe(), LinearProbe(solver="least_squares")),
        (Regression(), Regression(reg="gcv")),
    ):
        first, second = usual(*splits())[0], quick(*splits())[0]
        assert first.name == second.name
        assert abs(first.value - second.value) < 0.1


def test_quick_solvers_choose_their_penalty_themselves():
    with pytest.raises(ValueError, match=r"leave reg=0.1 out"):
        LinearProbe(solver="least_squares", reg=0.1)
    with pytest.raises(ValueError, match="'gcv' or None, not 'gvc'"):
        Regression(reg="gvc")


def test_intervals_may_be_left_out():
    with without_intervals():
        (quick,) = KNN()(*splits())
    (whole,) = KNN()(*splits())
    assert quick.interval is None
    assert whole.interval is not None
    assert (quick.name, quick.value) == (whole.name, whole.value)

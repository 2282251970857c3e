"""Each measure equals a slow loop written from its equation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

from ccl_plugins.evaluators.knn import nearest as evaluator_votes
from ccl_plugins.watching.geometry import alignment, same_class, uniformity
from ccl_plugins.watching.least_squares import PENALTIES, explained, least_squares, moments
from ccl_plugins.watching.neighbors import averaged, nearest, voted
from ccl_plugins.watching.spectrum import effective_rank, rankme, singular_values

X = torch.randn(30, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.randn(30, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def unit(x):
    return [row / row.norm() for row in x]


def test_alignment_is_the_mean_squared_distance_of_two_views():
    slow = sum(float((a - b).square().sum()) for a, b in zip(unit(X), unit(Y), strict=True)) / 30
    torch.testing.assert_close(float(alignment(X, Y)), slow)
    assert float(alignment(X, 3 * X)) < 1e-12


def test_uniformity_is_the_log_of_the_mean_kernel_of_two_samples():
    rows = unit(X)
    kernels = [
        math.exp(-2 * float((rows[i] - rows[j]).square().sum()))
        for i in range(30)
        for j in range(i)
    ]
    torch.testing.assert_close(float(uniformity(X)), math.log(sum(kernels) / len(kernels)))
    assert abs(float(uniformity(torch.ones(5, 3)))) < 1e-6


@pytest.mark.parametrize("shared", [True, False])
def test_negatives_of_the_anchors_label_are_counted(shared):
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randint(-1, 3, (6,), generator=generator)
    others = torch.randint(-1, 3, (9,) if shared else (6, 9), generator=generator)
    counts = torch.rand(6, 9, generator=generator) < 0.7
    same = negatives = 0
    for i in range(6):
        for j in range(9):
            other = int(others[j] if shared else others[i, j])
            if counts[i, j] and other >= 0 and anchors[i] >= 0:
                negatives += 1
                same += int(anchors[i] == other)
    assert same_class(anchors, others, counts).tolist() == [same, negatives]


def test_rankme_and_the_effective_rank_are_the_exponential_of_an_entropy():
    found = singular_values(X.T @ X)
    sigma = np.linalg.svd(X.numpy(), compute_uv=False)
    p = sigma / sigma.sum()
    slow = math.exp(-sum((each + 1e-7) * math.log(each + 1e-7) for each in p))
    torch.testing.assert_close(float(rankme(found)), slow)
    torch.testing.assert_close(float(effective_rank(found)), math.exp(-float(p @ np.log(p))))


def test_the_rank_is_one_of_a_line_and_all_of_a_ball():
    line = singular_values(X[:, :1] @ X[:1] @ X[:1].T @ X[:, :1].T)
    torch.testing.assert_close(float(effective_rank(line)), 1.0, atol=1e-5, rtol=0)
    torch.testing.assert_close(float(rankme(torch.ones(7).double())), 7.0, atol=1e-4, rtol=0)
    assert float(effective_rank(torch.zeros(4))) == 1.0


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
            best = (score, penalty, lambda q, w=weight: (q - mean) @ w + y.mean(0))
    return best


@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
def test_a_linear_probe_from_sums_is_ridge_regression_with_the_penalty_of_cross_validation(noise):
    generator = torch.Generator().manual_seed(2)
    y = X @ torch.randn(7, 3, generator=generator).double() + 1
    y = y + noise * torch.randn(30, 3, generator=generator).double()
    weight = (torch.arange(30) % 3 > 0).double()
    # In two batches, as steps add them.
    found = moments(X[:11], y[:11], weight[:11]).add(moments(X[11:], y[11:], weight[11:]))
    probe, (_, penalty, slow) = least_squares(found), slow_probe(X[weight > 0], y[weight > 0])
    if noise:
        assert probe.penalty == penalty
        torch.testing.assert_close(probe(Y), slow(Y))
    else:
        torch.testing.assert_close(probe(Y), slow(Y), atol=1e-5, rtol=1e-5)


def test_a_penalty_keeps_more_features_than_samples_from_being_learned_by_heart():
    generator = torch.Generator().manual_seed(0)
    x, new = torch.randn(60, 80, generator=generator), torch.randn(500, 80, generator=generator)
    noise = torch.randn(560, 1, generator=generator).double()
    probe = least_squares(moments(x, noise[:60], torch.ones(60)))
    assert explained(probe(new), noise[60:]) > -0.5


def test_explained_variance_is_scikit_learns_r2_without_constant_columns():
    predicted = X + 0.1 * Y
    expected = r2_score(X.numpy(), predicted.numpy())
    torch.testing.assert_close(float(explained(predicted, X)), expected)
    constant = torch.cat([X, torch.ones(30, 1)], 1)
    torch.testing.assert_close(
        float(explained(torch.cat([predicted, Y[:, :1]], 1), constant)), expected
    )
    assert explained(Y, torch.ones(30, 7)) is None


def test_neighbors_vote_as_the_evaluators_do():
    ids = torch.arange(30) % 4
    weights, rows = nearest(Y, X, k=5)
    votes = voted(weights, rows, ids, 4)
    assert votes.tolist() == evaluator_votes(Y, X, ids, 5, 0.1).tolist()
    slow = []
    for query in unit(Y):
        cosines = sorted(((float(query @ row), i) for i, row in enumerate(unit(X))), reverse=True)
        scores = [0.0] * 4
        for cosine, i in cosines[:5]:
            scores[int(ids[i])] += math.exp(cosine / 0.1)
        slow.append(scores.index(max(scores)))
    assert votes.tolist() == slow


def test_neighbors_of_numbers_are_averaged_by_weight():
    weights, rows = nearest(Y, X, k=5)
    for i, query in enumerate(unit(Y)):
        near = sorted(((float(query @ row), j) for j, row in enumerate(unit(X))), reverse=True)[:5]
        total = sum(math.exp(cosine / 0.1) for cosine, _ in near)
        slow = sum(math.exp(cosine / 0.1) / total * X[j, :2] for cosine, j in near)
        torch.testing.assert_close(averaged(weights, rows, X[:, :2])[i], slow)
    assert len(nearest(Y, X[:3])[1][0]) == 3

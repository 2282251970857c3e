from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from support.slow_cacr import assert_same, distance, random_views, softmax
from torch.nn.functional import normalize

from ccl_plugins.kernels import Linear
from ccl_plugins.objectives import CACRMoCoV3
from ccl_plugins.pairs import Pairs, Queue
from ccl_plugins.testing.objective_batches import RawBatch, on_each_rank


def slow(q, k, tau, cost):
    """Views of q against the keys k: one weight per view, for both parts of its cost."""
    n, total = len(k), 0.0
    for i in range(n):
        own = [distance(view[i], k[i]) for view in q]
        weights = softmax([d.detach() / tau for d in own])
        for view, near, weight in zip(q, own, weights, strict=True):
            costs = [distance(view[i], k[j]) for j in range(n)]
            if cost == "rbf":
                t = 1 / (2 * tau)
                far = torch.log(sum(torch.exp(-t * c) for c in costs)) / t
                total = total + weight * (near + far) / n
            else:
                others = [c / 2 for j, c in enumerate(costs) if j != i]
                pi = softmax([-c.detach() / tau for c in others])
                far = sum(p * c for p, c in zip(pi, others, strict=True))
                total = total + weight * (near / 2 - far)
    return total


def one_key_view(q, k):
    views = tuple(range(len(q)))
    return Pairs(normalize(q, dim=-1), normalize(k, dim=-1)[None], views, (len(q),))


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_equals_the_slow_loop_in_value_and_gradient(cost):
    q, k = random_views(3), random_views(1, seed=1)[0].detach()
    fast = CACRMoCoV3(0.4, cost=cost).loss(one_key_view(q, k))
    assert_same(fast, slow(q, k, 0.4, cost), q)


def test_the_euclidean_cost_is_a_sum_over_each_process_s_batch(two_processes):
    views, build = random_views(2, n=8).detach(), partial(CACRMoCoV3, cost="euclidean")
    value, (gradient,) = on_each_rank(build, RawBatch(views))
    for found in two_processes(on_each_rank, build, RawBatch(views)):
        torch.testing.assert_close(found, (value / 2, [gradient / 2]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_a_key_view_that_no_other_view_is_compared_with_adds_nothing(cost):
    views = normalize(random_views(2).detach(), dim=-1)
    both, second = (Pairs(views[:1], k, (0,), n) for k, n in ((views, (0, 1)), (views[1:], (1,))))
    objective = CACRMoCoV3(0.4, cost=cost)
    torch.testing.assert_close(objective.terms(both), objective.terms(second))


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_a_queue_gives_more_negatives(cost):
    q, k = random_views(2), random_views(1, n=9, seed=1)[0].detach()
    near, far = k[:6], k[6:]
    given = one_key_view(q, near)
    pairs = replace(given, queue=Queue(normalize(far, dim=-1), torch.ones(3).bool()))
    wide = torch.cat([q, q[:, :3]], 1)
    whole = CACRMoCoV3(0.4, cost=cost).terms(one_key_view(wide, k))[0][:, :6]
    scale = 9 / 6 if cost == "euclidean" else 1  # a sum over the batch
    torch.testing.assert_close(scale * CACRMoCoV3(0.4, cost=cost).terms(pairs)[0], whole)


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_samples_without_the_value_that_excluding_reads_are_left_out(cost):
    views, size = random_views(2, n=8).detach(), torch.arange(8.0, dtype=torch.float64)
    objective = CACRMoCoV3(0.4, cost=cost, exclude=(Linear(), 1e9, "size"))
    kept = torch.tensor([0, 2, 3, 5, 6, 7])
    gaps = size.index_fill(0, torch.tensor([1, 4]), torch.nan)
    found = objective(*views, condition=gaps, missing="ignore")
    torch.testing.assert_close(found, objective(*views[:, kept], condition=size[kept]))

from __future__ import annotations

from functools import partial

import oracle
import pytest
import sharded
import torch
from slow_cacr import TOLERANCE, assert_same, distance, random_views, softmax
from torch.nn.functional import normalize

from ccl_plugins.objectives import CACRMoCoV3
from ccl_plugins.pairs import Pairs


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


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", oracle.names("cacr_mocov3_*"))
def test_equals_the_stored_value(name, dtype):
    case = oracle.case(name)
    data = oracle.tensors(case["inputs"], dtype)
    cost = {"euclid": "euclidean", "rbf": "rbf"}[name.split("_")[2]]
    loss = CACRMoCoV3(case["params"]["T"], cost=cost).loss(one_key_view(data["q_views"], data["k"]))
    for key in ("expected_paper", "expected_code"):
        expected = torch.tensor(case[key], dtype=dtype)
        torch.testing.assert_close(loss, expected, rtol=TOLERANCE[dtype], atol=0)


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_equals_the_slow_loop_in_value_and_gradient(cost):
    q, k = random_views(3), random_views(1, seed=1)[0].detach()
    fast = CACRMoCoV3(0.4, cost=cost).loss(one_key_view(q, k))
    assert_same(fast, slow(q, k, 0.4, cost), q)


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_every_view_gives_keys_once(cost):
    views = random_views(3)
    loops = [slow(views[[i for i in range(3) if i != j]], views[j], 0.4, cost) for j in range(3)]
    assert_same(CACRMoCoV3(0.4, cost=cost)(*views), sum(loops) / 3, views)


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
@pytest.mark.parametrize("batch", ["two samples", "identical rows", "zero vectors"])
def test_degenerate_batches_are_finite(batch, cost):
    views = torch.randn(3, 2 if batch == "two samples" else 5, 4)
    if batch == "identical rows":
        views = views[:1, :1].repeat(3, 5, 1)
    if batch == "zero vectors":
        views = views * 0
    views.requires_grad_()
    loss = CACRMoCoV3(0.2, cost=cost)(*views)
    loss.backward()
    assert loss.isfinite()
    assert views.grad.isfinite().all()


@pytest.mark.parametrize("cost", ["rbf", "euclidean"])
def test_compiles_without_graph_breaks(cost):
    views, objective = random_views(2), CACRMoCoV3(cost=cost)
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*views), objective(*views))


def test_two_processes_equal_one(two_processes):
    views = random_views(3, n=8).detach()
    expected = sharded.whole(CACRMoCoV3, views, {})
    for found in two_processes(sharded.loss_and_gradient, CACRMoCoV3, views, {}):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_the_euclidean_cost_is_a_sum_over_each_process_s_batch(two_processes):
    views, build = random_views(2, n=8).detach(), partial(CACRMoCoV3, cost="euclidean")
    value, gradient = sharded.whole(build, views, {})
    for found in two_processes(sharded.loss_and_gradient, build, views, {}):
        torch.testing.assert_close(found, (value / 2, gradient / 2), rtol=1e-9, atol=1e-12)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"temperature .* not 0"):
        CACRMoCoV3(0)
    with pytest.raises(ValueError, match="'rbf', 'euclidean'"):
        CACRMoCoV3(cost="cosine")

"""CACR with momentum keys and a queue: Algorithm 3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from support import sharded
from support.sharded import momentum_pairs
from support.slow_cacr import assert_same, distance, moved, random_views, slow_queue

from ccl_plugins.objectives import CACR


@pytest.mark.parametrize("intra_batch", [True, False])
def test_with_a_queue_equals_the_slow_loop(intra_batch):
    q, k, queue = random_views(3), random_views(3, seed=1), random_views(1, n=7, seed=2)[0]
    slow = slow_queue(q, k.detach(), queue.detach(), 0.7, 1.3, intra_batch)
    pairs = momentum_pairs(q, k.detach(), queue.detach())
    assert_same(CACR(t_plus=0.7, t_minus=1.3, intra_batch=intra_batch).loss(pairs), slow, q)


@pytest.mark.parametrize("cost", ["euclidean", "rbf"])
def test_without_any_negative_only_attraction_is_left(cost):
    q, k = random_views(2, n=1), random_views(2, n=1, seed=1).detach()
    pairs = momentum_pairs(q, k, torch.randn(4, 5, dtype=torch.float64))
    pairs.queue.valid.fill_(False)
    loss = CACR(cost=cost).loss(pairs)
    torch.testing.assert_close(loss, (distance(q[0, 0], k[1, 0]) + distance(q[1, 0], k[0, 0])) / 2)
    assert torch.autograd.grad(loss, q)[0].isfinite().all()


@pytest.mark.parametrize("cost", ["euclidean", "rbf"])
def test_compiles_without_graph_breaks(cost):
    q, k, queue = random_views(2), random_views(2, seed=1).detach(), torch.randn(7, 5).double()

    def loss(q):
        return CACR(cost=cost).loss(momentum_pairs(q, k, queue))

    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(q), loss(q))


@pytest.mark.parametrize("cost", ["euclidean", "rbf"])
def test_two_processes_equal_one(cost, two_processes):
    """The batch's other queries are those of both processes."""
    q, k = random_views(3, n=8).detach(), random_views(3, n=8, seed=1).detach()
    given = (partial(CACR, cost=cost), q, k, random_views(1, n=5, seed=2)[0].detach())
    expected = sharded.whole(*given)
    for found in two_processes(sharded.loss_and_gradient, *given):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("negatives", ["other_view", "later_view"])
def test_keys_of_other_views_and_a_queue_repel_with_weights_that_carry_no_gradient(negatives):
    q, k, queue = random_views(3), random_views(3, seed=1).detach(), random_views(1, n=7, seed=2)[0]
    queue, attracted, repelled = queue.detach(), [], []
    for i in range(3):
        for n in range(6):
            costs = [distance(q[i, n], k[j, n]) for j in range(3) if j != i]
            attracted.append(moved(costs, [c.detach() for c in costs], 0.7))
        for j in range(3):
            if j == i or (negatives == "later_view" and j < i):
                continue
            for n in range(6):
                keys = [*(k[j, m] for m in range(6) if m != n), *queue]
                costs = [distance(q[i, n], key) for key in keys]
                repelled.append(moved(costs, [c.detach() for c in costs], -1.3))
    slow = sum(attracted) / len(attracted) - sum(repelled) / len(repelled)
    pairs = replace(momentum_pairs(q, k, queue), batch_candidates=None)
    assert_same(CACR(t_plus=0.7, t_minus=1.3, negatives=negatives).loss(pairs), slow, q)


def test_until_the_queue_is_filled_the_batch_s_other_queries_are_negatives():
    q, k, queue = random_views(2), random_views(2, seed=1).detach(), random_views(1, n=7, seed=2)[0]
    pairs = momentum_pairs(q, k, queue.detach())
    waiting = replace(pairs, batch_candidates=torch.tensor(True))
    found = CACR(intra_batch=False).loss(waiting)
    torch.testing.assert_close(found, CACR().loss(pairs))
    assert (found - CACR(intra_batch=False).loss(pairs)).abs() > 1e-3

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support import sharded_momentum
from support.slow_cacr import assert_same, distance, random_views
from torch.nn.functional import normalize

from ccl_plugins.objectives import AlignUniform
from ccl_plugins.pairs import in_batch


def slow_alignment(x, y, power):
    return sum(distance(a, b) ** (power / 2) for a, b in zip(x, y, strict=True)) / len(x)


def slow_uniformity(x, t, queue=()):
    pairs = [(x[i], x[j]) for i in range(len(x)) for j in range(i)]
    pairs += [(a, key) for a in x for key in queue]
    return torch.log(sum(torch.exp(-t * distance(a, b)) for a, b in pairs) / len(pairs))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 3.0])
def test_equals_the_slow_loop_in_value_and_gradient(power):
    views = random_views(3)
    aligned = [slow_alignment(views[i], views[j], power) for i in range(3) for j in range(i)]
    uniform = [slow_uniformity(view, 1.3) for view in views]
    slow = (1.5 * sum(aligned) + 0.7 * sum(uniform)) / 3
    objective = AlignUniform(power=power, precision=1.3, align_weight=1.5, uniform_weight=0.7)
    assert_same(objective(*views), slow, views)


def test_with_a_queue_equals_the_slow_loop():
    q, k = random_views(2), random_views(2, seed=1).detach()
    queue = random_views(1, n=4, seed=2)[0].detach()
    aligned = [slow_alignment(q[0], k[1], 2), slow_alignment(q[1], k[0], 2)]
    slow = (sum(aligned) + sum(slow_uniformity(view, 2.0, queue) for view in q)) / 2
    fast = AlignUniform().loss(sharded_momentum.momentum_pairs(q, k, queue))
    assert_same(fast, slow, q)


def test_two_processes_with_momentum_keys_equal_one(two_processes):
    q, k = random_views(2, n=8).detach(), random_views(2, n=8, seed=1).detach()
    given = (AlignUniform, q, k, random_views(1, n=5, seed=2)[0].detach())
    expected = sharded_momentum.whole(*given)
    for found in two_processes(sharded_momentum.loss_and_gradient, *given):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["power", "precision", "align_weight", "uniform_weight"])
def test_values_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be .*, not -1.0"):
        AlignUniform(**{name: -1.0})


def test_drawn_negatives_take_the_place_of_all_others():
    views, draws = random_views(2), torch.tensor([[1, 2], [3, 3], [0, 4], [5, 1], [2, 0], [4, 1]])
    pairs = replace(in_batch(normalize(views, dim=-1)), draws=draws)
    total = slow_alignment(views[0], views[1], 2)
    for view in views:
        far = [distance(view[i], view[j]) for i in range(6) for j in draws[i]]
        total = total + torch.log(sum(torch.exp(-1.3 * d) for d in far) / len(far)) / 2
    assert_same(AlignUniform(power=2, precision=1.3).loss(pairs), total, views)


def test_a_single_sample_has_no_uniformity():
    views = normalize(random_views(2, n=1).detach(), dim=-1)
    found = AlignUniform().loss(in_batch(views))
    torch.testing.assert_close(found, distance(views[0, 0], views[1, 0]))


def test_views_that_coincide_have_a_finite_gradient_at_any_power():
    views = random_views(1, n=3).detach().repeat(2, 1, 1).requires_grad_()
    for power in (0.5, 1.0, 2.0):
        loss = AlignUniform(power=power, uniform_weight=0)(*views)
        assert loss < 1e-6
        assert torch.autograd.grad(loss, views)[0].isfinite().all()

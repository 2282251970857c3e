from __future__ import annotations

from dataclasses import replace

import torch
from support import sharded
from support.slow_cacr import assert_same, distance, random_views
from torch.nn.functional import normalize

from ccl_plugins.objectives import AlignUniform
from ccl_plugins.pairs import in_batch


def slow_alignment(x, y, power):
    return sum(distance(a, b) ** (power / 2) for a, b in zip(x, y, strict=True)) / len(x)


def test_two_processes_with_momentum_keys_equal_one(two_processes):
    q, k = random_views(2, n=8).detach(), random_views(2, n=8, seed=1).detach()
    given = (AlignUniform, q, k, random_views(1, n=5, seed=2)[0].detach())
    expected = sharded.whole(*given)
    for found in two_processes(sharded.loss_and_gradient, *given):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


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

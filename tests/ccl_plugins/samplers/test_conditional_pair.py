"""Pairs of two images with the same, or a similar, value of the condition."""

from __future__ import annotations

import pytest
import torch
from support.sampled import assert_distributed

import ccl_plugins as ccl
from ccl_plugins.kernels import Delta
from ccl_plugins.samplers import ConditionalPair, Uniform, conditional_pair

CLASSES = torch.arange(96) % 8 // 3  # 36, 36 and 24 samples
COLORS = torch.rand(96, 3, generator=torch.Generator().manual_seed(0))


def epoch(sampler, number, start=0):
    return list(sampler.batches(number, start))


def pair_counts(sampler, size, epochs):
    rows = torch.cat([batch for e in range(epochs) for batch in sampler.batches(e)])
    return torch.bincount(rows[:, 0] * size + rows[:, 1], minlength=size**2).view(size, size)


@pytest.mark.parametrize("own", [True, False])
def test_pairs_are_distributed_as_their_equation(own):
    classes = torch.tensor([4, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
    sampler = ConditionalPair(own_pair=own, condition=classes, size=12, batch_size=6, seed=0)
    same = (classes[:, None] == classes).double()
    if not own:
        same[1:] -= torch.eye(12)[1:]  # the first is alone, and so is its own partner
    counts = pair_counts(sampler, 12, 2000)
    assert_distributed(counts, 2000 * same / same.sum(1, keepdim=True))


def test_partners_in_a_batch_are_drawn_independently():
    sampler = ConditionalPair(condition=torch.zeros(4).long(), size=4, batch_size=4, seed=0)
    drawn = torch.cat([batch for e in range(5000) for batch in sampler.batches(e)])
    partner = drawn[:, 1][drawn[:, 0].view(-1, 4).argsort(1) + 4 * torch.arange(5000)[:, None]]
    assert_distributed(
        torch.bincount(partner[:, 0] * 4 + partner[:, 1], minlength=16), [5000 / 16] * 16
    )


def test_a_kernel_may_be_unbounded_negative_or_zero():
    values = torch.tensor([[3.0], [1.0], [-2.0], [0.0]])
    linear = ccl.create("kernel", "linear")
    sampler = ConditionalPair(
        kernel=linear, own_pair=False, condition=values, size=4, batch_size=2, seed=0
    )
    # The third is similar to itself only, the last to no sample: they are their own partners.
    expected = [[0, 600, 0, 0], [600, 0, 0, 0], [0, 0, 600, 0], [0, 0, 0, 600]]
    assert pair_counts(sampler, 4, 600).tolist() == expected


@pytest.mark.parametrize("own", [True, False])
def test_a_kernel_of_a_single_class_draws_from_all_samples(own):
    classes = torch.zeros(4).long()
    sampler = ConditionalPair(
        own_pair=own, kernel=Delta(), condition=classes, size=4, batch_size=4, seed=0
    )
    possible = (torch.ones(4, 4) if own else 1 - torch.eye(4)).double()
    counts = pair_counts(sampler, 4, 2000)
    assert_distributed(counts, 2000 * possible / possible.sum(1, keepdim=True))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("columns", [1, 3])
def test_partners_are_among_the_nearest(own, columns):
    values = COLORS[:, :columns]
    sampler = ConditionalPair(
        own_pair=own, nearest=4, condition=values, size=96, batch_size=96, seed=0
    )
    distance = torch.cdist(values, values) + (0 if own else torch.eye(96) * 9)
    near = torch.zeros(96, 96).scatter_(1, distance.topk(4, largest=False).indices, 1)
    assert_distributed(pair_counts(sampler, 96, 400), 100 * near)


@pytest.mark.parametrize("columns", [1, 2, 20])
def test_equal_values_are_each_others_nearest_and_never_their_own(columns):
    sampler = ConditionalPair(
        own_pair=False, nearest=2, condition=torch.zeros(9, columns), size=9, batch_size=9, seed=0
    )
    for e in range(50):
        pairs = epoch(sampler, e)[0]
        assert bool((pairs[:, 0] != pairs[:, 1]).all())


@pytest.mark.parametrize("number", [0, 3])
def test_anchors_are_those_of_uniform_and_a_start_changes_no_partner(monkeypatch, number):
    """Partners of several batches are drawn together, here of two."""
    monkeypatch.setattr(conditional_pair, "TOGETHER", 16)
    given = {"size": 96, "batch_size": 8, "seed": 0}
    sampler = ConditionalPair(condition=torch.arange(96) % 4, **given)
    whole = torch.stack(epoch(sampler, number))
    anchors = torch.stack(epoch(Uniform(**given), number))
    assert torch.equal(whole[..., 0], anchors)
    for start in range(1, 5):
        assert torch.equal(torch.stack(epoch(sampler, number, start)), whole[start:])

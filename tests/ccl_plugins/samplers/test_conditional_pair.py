"""Pairs of two images.  Draws are fixed by their seed; a statistical test accepts what is not rejected
with an error rate of 1e-4: of ten thousand seeds, one would fail a sampler that is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF, Delta, Laplacian, Precomputed, Product, Sum
from ccl_plugins.samplers import ConditionalPair
from ccl_plugins.samplers.by_kernel import ByKernel, by_kernel
from ccl_plugins.samplers.line import FallingOnLine, NearestOnLine
from ccl_plugins.samplers.partners import ByClassKernel

ERROR_RATE = 1e-4
CLASSES = torch.arange(96) % 8 // 3  # 36, 36 and 24 samples
COLORS = torch.rand(96, 3, generator=torch.Generator().manual_seed(0))


def epoch(sampler, number, start=0):
    return list(sampler.batches(number, start))


def assert_distributed(counts, expected):
    """The counts are such as draws with these expected counts give."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    assert counts[expected == 0].sum() == 0
    possible = expected > 0
    if possible.sum() == 1:  # nothing left to chance
        return
    chance = stats.chisquare(counts[possible], expected[possible]).pvalue
    assert chance > ERROR_RATE


def assert_in_proportion(partners, weights, anchors, repeats=3000):
    """Partners of some anchors are drawn in proportion to their rows of weights; rare ones together."""
    draws = np.random.default_rng(0)
    # Not all alone: anchors in a batch must not be in each other's way.
    asked = torch.tensor([anchors] * 50).flatten()
    drawn = torch.cat([partners.draw(asked, draws) for _ in range(repeats // 50)])
    for place, anchor in enumerate(anchors):
        chosen = torch.bincount(drawn[place :: len(anchors)], minlength=len(weights))
        row = weights[anchor].double()
        if row.sum() == 0:
            assert chosen[anchor] == repeats
            continue
        expected = repeats * row / row.sum()
        rare = expected < 5
        assert_distributed(
            [*chosen[~rare], chosen[rare].sum()], [*expected[~rare], expected[rare].sum()]
        )


CUBES = torch.linspace(-1, 1, 100) ** 3  # crowded in the middle
LINES = {
    "crowded": CUBES,
    "repeated": (CUBES * 4).round(),
    "apart": torch.cat([torch.linspace(0, 1e-3, 99), torch.tensor([1.0])]),
    "equal": torch.zeros(100),
    "two": torch.tensor([0.0, 0.3]),
}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("values", LINES.values(), ids=LINES)
@pytest.mark.parametrize("kernel", [RBF(0.05), RBF(1e-4), Laplacian(0.2)], ids=str)
def test_on_a_line_partners_are_distributed_as_the_kernel(own, values, kernel):
    values = values[torch.randperm(len(values), generator=torch.Generator().manual_seed(1))]
    partners = by_kernel(values, own, kernel)
    assert isinstance(partners, FallingOnLine)
    weights = kernel(values.double(), values.double())
    weights = weights.fill_diagonal_(0) if not own else weights
    some = values.argsort()[[0, len(values) // 2, -1]].tolist()
    assert_in_proportion(partners, weights.float(), some)


def test_kernels_of_kernels_know_the_line_where_all_parts_do():
    parts = [RBF(0.05), Laplacian(0.5)]
    for kernel in (Sum(parts, [0.3, 1.0]), Product(parts)):
        partners = by_kernel(CUBES, True, kernel)
        assert isinstance(partners, FallingOnLine)
        assert_in_proportion(partners, kernel(CUBES, CUBES), [0, 50])
    assert isinstance(by_kernel(CUBES, True, Sum([RBF("median"), RBF()])), ByKernel)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("kernel", [RBF(1.0), Delta()], ids=str)
def test_classes_are_distributed_as_the_kernel(own, kernel):
    ids = torch.tensor([3] * 4 + [0] * 10 + [7] + [5] * 5)
    partners = by_kernel(ids, own, kernel)
    assert isinstance(partners, ByClassKernel)
    weights = kernel(ids, ids)
    weights = weights.fill_diagonal_(0) if not own else weights
    assert_in_proportion(partners, weights, [1, 8, 14, 19])


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    "kernel", [RBF(0.05), RBF("median"), ccl.create("kernel", "cosine")], ids=str
)
def test_partners_are_distributed_as_any_kernel(own, kernel):
    """Among few candidates, accepted or not, and among all samples."""
    partners = ByKernel(torch.stack([CUBES, 0.3 + CUBES**2], 1), own, kernel)
    if getattr(kernel, "scale", None) == "median":  # that of candidates is not that of all
        partners.kernel = kernel = RBF(0.2)
    weights = kernel(partners.values, partners.values).clamp_min(0)
    weights = weights.fill_diagonal_(0) if not own else weights
    for together in (1, 32):
        assert_in_proportion(partners, weights, [0, 50] * together)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("k", [1, 2, 7, 98])
def test_the_nearest_on_a_line_are_those_of_all_distances(own, k):
    values = CUBES[torch.randperm(100, generator=torch.Generator().manual_seed(2))]
    partners, draws = NearestOnLine(values, own, k), np.random.default_rng(0)
    anchors = torch.arange(100).repeat(200)
    drawn = partners.draw(anchors, draws)
    distance = (values[:, None] - values).abs()
    distance = distance if own else distance.fill_diagonal_(9)
    farthest = distance.sort(1).values[:, k - 1]
    assert bool((distance[anchors, drawn] <= farthest[anchors]).all())
    if k <= 7:
        pairs = torch.stack([anchors, drawn], 1).unique(dim=0)
        assert len(pairs) == 100 * k


def pair_counts(sampler, size, epochs):
    rows = torch.cat([batch for e in range(epochs) for batch in sampler.batches(e)])
    return torch.bincount(rows[:, 0] * size + rows[:, 1], minlength=size**2).view(size, size)


@pytest.mark.parametrize("own", [True, False])
def test_pairs_are_distributed_as_their_equation(own):
    classes = torch.tensor([4, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
    sampler = ConditionalPair(own, condition=classes, size=12, batch_size=6, seed=0)
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
    # The third is likened to none but itself, the last to none at all: they are their own partners.
    expected = [[0, 600, 0, 0], [600, 0, 0, 0], [0, 0, 600, 0], [0, 0, 0, 600]]
    assert pair_counts(sampler, 4, 600).tolist() == expected


def test_a_delta_kernel_is_the_classes():
    sampler = ConditionalPair(kernel=Delta(), condition=CLASSES, size=96, batch_size=8, seed=0)
    pairs = torch.cat(epoch(sampler, 0))
    assert torch.equal(CLASSES[pairs[:, 0]], CLASSES[pairs[:, 1]])
    assert (pairs[:, 0] != pairs[:, 1]).float().mean() > 0.9


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("columns", [1, 3])
def test_partners_are_among_the_nearest(own, columns):
    values = COLORS[:, :columns]
    sampler = ConditionalPair(own, nearest=4, condition=values, size=96, batch_size=96, seed=0)
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


@pytest.mark.parametrize(
    ("given", "condition", "words"),
    [
        ({}, COLORS, "holds numbers.* by kernel= or nearest="),
        ({"nearest": 3}, CLASSES, "holds class ids.* without nearest="),
        ({"nearest": 3, "kernel": RBF(1.0)}, COLORS, "not both"),
        ({"nearest": 97}, COLORS, "nearest must be 1 to 96.* not 97"),
        ({"kernel": Precomputed([[1.0]])}, CLASSES, "needs a positive definite kernel"),
    ],
)
def test_what_partners_cannot_be_drawn_by_is_refused(given, condition, words):
    with pytest.raises(ValueError, match=words):
        ConditionalPair(**given, condition=condition, size=96, batch_size=8, seed=0)

"""Partners in proportion to a kernel, and among the nearest, against their distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.sampled import assert_distributed, assert_in_proportion

import ccl_plugins as ccl
from ccl_plugins.drawing.boxes import Boxes
from ccl_plugins.drawing.by_class import ByClassKernel
from ccl_plugins.drawing.by_distance import ByDistance
from ccl_plugins.drawing.by_kernel import ByKernel, by_kernel
from ccl_plugins.drawing.nearest import NearestOnLine
from ccl_plugins.kernels import RBF, Delta, Laplacian, Linear, Product, Sum

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
    assert isinstance(partners, ByDistance)
    weights = kernel(values.double(), values.double())
    weights = weights.fill_diagonal_(0) if not own else weights
    some = values.argsort()[[0, len(values) // 2, -1]].tolist()
    assert_in_proportion(partners, weights.float(), some)


COLORS = torch.rand(99, 3, generator=torch.Generator().manual_seed(3))
SPACES = {
    "crowded": torch.rand(300, 2, generator=torch.Generator().manual_seed(3)) ** 3,
    "repeated": (torch.rand(100, 3, generator=torch.Generator().manual_seed(3)) * 2).round(),
    "apart": torch.cat(
        [torch.rand(99, 3, generator=torch.Generator().manual_seed(3)), torch.ones(1, 3) * 3]
    ),
    "equal": torch.zeros(100, 2),
    "two": torch.tensor([[0.0, 0.3], [0.1, 0.2]]),
}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("values", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(0.03), RBF(1e-4), Laplacian(0.2)], ids=str)
def test_in_space_partners_are_distributed_as_the_kernel(own, values, kernel):
    partners = by_kernel(values, own, kernel)
    assert isinstance(partners, ByDistance)
    weights = kernel(values.double(), values.double())
    weights = weights.fill_diagonal_(0) if not own else weights
    some = values[:, 0].argsort()[[0, len(values) // 2, -1]].tolist()
    assert_in_proportion(partners, weights.float(), some)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("share", [1 / 2, 1 / 16, 1e-3, 1e-9])
@pytest.mark.parametrize("scale", [1.0, 0.05, 1e-3])
def test_every_sample_has_its_bound(own, share, scale):
    """The boxes of an anchor hold each sample with weight once, and bound its weight."""
    values = torch.rand(1000, 3, generator=torch.Generator().manual_seed(4))
    boxes = Boxes(values)
    weights = RBF(scale)(values.double(), values.double())
    weights = weights if own else weights.fill_diagonal_(0)
    weights = weights[boxes.order][:, boxes.order]
    anchors = np.arange(0, 1000, 25)
    cover = boxes.cover(anchors, own, lambda square: np.exp(-square / scale), share)
    counts = cover.start[1:] - cover.start[:-1]
    assert len(cover.first) == counts.sum()
    row = np.arange(len(anchors)).repeat(counts)
    limit = share * np.bincount(row, cover.mass)
    assert bool(((cover.size == 1) | (cover.mass <= limit[row] * (1 + 1e-9))).all())
    # Of every sample of every box: its row, its place, and its box.
    rows, box = row.repeat(cover.size), np.arange(len(row)).repeat(cover.size)
    begin = cover.size.cumsum() - cover.size
    places = np.arange(len(box)) - begin[box] + cover.first[box]
    own_weights = weights[anchors]
    # A closed box may hold the anchor itself, which is rejected when drawn.
    bound = torch.from_numpy((cover.mass / cover.size)[box]) * (1 + 1e-4) + 1e-40
    assert bool((own_weights[rows, places] <= bound).all())
    covered = torch.zeros_like(own_weights)
    covered.index_put_(
        (torch.from_numpy(rows), torch.from_numpy(places)),
        torch.tensor(1.0).to(covered),
        accumulate=True,
    )
    assert bool((covered <= 1).all())
    assert bool(((own_weights * (covered == 0)).sum(1) <= 1e-30).all())


@pytest.mark.parametrize("own", [True, False])
def test_an_anchor_whose_candidates_are_rejected_opens_smaller_boxes(own, monkeypatch):
    monkeypatch.setattr("ccl_plugins.drawing.by_distance.SHARE", 1.0)
    monkeypatch.setattr("ccl_plugins.drawing.by_distance.CANDIDATES", (1, 2))
    monkeypatch.setattr("ccl_plugins.drawing.by_distance.TOGETHER", 64)
    values = SPACES["crowded"]
    kernel = RBF(0.03)
    weights = kernel(values, values) if own else kernel(values, values).fill_diagonal_(0)
    assert_in_proportion(by_kernel(values, own, kernel), weights, [0, 150])


@pytest.mark.parametrize("kernel", [RBF(2e-3), Laplacian(5e-3)], ids=str)
def test_far_from_all_others_partners_are_distributed_as_the_kernel(kernel):
    """All distances are large beside the scale: weights are tiny, and differ by orders of magnitude."""
    generator = torch.Generator().manual_seed(5)
    cloud = torch.rand(500, 3, generator=generator) * 0.1
    values = torch.cat([torch.full((1, 3), 0.3), cloud])
    weights = kernel(values.double(), values.double()).fill_diagonal_(0)
    assert_in_proportion(by_kernel(values, False, kernel), weights, [0])


def test_kernels_of_kernels_depend_on_distance_alone_where_all_parts_do():
    parts = [RBF(0.05), Laplacian(0.5)]
    for kernel in (Sum(parts, [0.3, 1.0]), Product(parts)):
        partners = by_kernel(CUBES, True, kernel)
        assert isinstance(partners, ByDistance)
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


@pytest.mark.parametrize(
    ("kernel", "own"),
    [
        (RBF(0.05), True),
        (RBF(0.05), False),
        (RBF("median"), False),
        (ccl.create("kernel", "cosine"), True),
    ],
    ids=str,
)
def test_partners_are_distributed_as_any_kernel(kernel, own):
    """Drawn from few candidates, accepted or rejected, and from all samples."""
    partners = ByKernel(torch.stack([CUBES, 0.3 + CUBES**2], 1), own, kernel)
    if getattr(kernel, "scale", None) == "median":  # that of candidates is not that of all
        partners.kernel = kernel = RBF(0.2)
    weights = kernel(partners.values, partners.values).clamp_min(0)
    weights = weights.fill_diagonal_(0) if not own else weights
    assert_in_proportion(partners, weights, [0, 50], together=1, repeats=1000)
    assert_in_proportion(partners, weights, [0, 50])


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


class Counting:
    """Reads class ids as numbers."""

    positive_definite = True

    def __call__(self, a, b):
        return (1.0 + a)[:, None] * (1.0 + b)


@pytest.mark.parametrize("own", [True, False])
def test_class_ids_that_a_kernel_reads_as_numbers_are_compared_one_by_one(own):
    ids, kernel = torch.tensor([0, 3, 3, 1, 2, 0, 1]), Counting()
    partners = by_kernel(ids, own, kernel)
    assert isinstance(partners, ByKernel)
    weights = kernel(ids, ids)
    weights = weights.fill_diagonal_(0) if not own else weights
    assert_in_proportion(partners, weights, [0, 1, 4], repeats=1000)


def test_a_kernel_of_a_hierarchy_is_refused():
    partners = by_kernel(torch.tensor([[0, 1], [0, 2]]), True, RBF(1.0))
    with pytest.raises(TypeError, match="give one column of a hierarchy"):
        partners.draw(torch.arange(2), np.random.default_rng(0))


@pytest.mark.parametrize("own", [True, False])
def test_of_many_candidates_each_is_accepted_in_proportion_to_an_unbounded_kernel(own):
    ids = torch.arange(2000) % 4
    partners = ByKernel(ids, own, Counting())
    anchors = torch.arange(3000) % 2000
    drawn = partners.draw(anchors, np.random.default_rng(0))
    assert_distributed(ids[drawn].bincount(minlength=4), [300, 600, 900, 1200])
    assert own or not bool((drawn == anchors).any())


def test_of_two_samples_at_equal_distance_on_a_line_the_first_in_order_is_nearer():
    partners = NearestOnLine(torch.tensor([2.0, 0.0, 1.0]), False, 1)
    drawn = partners.draw(torch.full((9,), 2), np.random.default_rng(0))
    assert drawn.tolist() == [1] * 9


def test_a_partner_is_drawn_wherever_it_stands_and_however_small_the_kernel_is():
    values = torch.tensor([[1e-2, 0, 0, 0]] * 2 + [[0, 0, 1e-2, 0]] * 2)
    partners = ByKernel(values, False, Linear())
    assert partners.draw(torch.arange(4), np.random.default_rng(0)).tolist() == [1, 0, 3, 2]

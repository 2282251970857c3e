from __future__ import annotations

import pytest
import torch
from support import slow_loops
from support.slow_cacr import assert_same, random_views

from ccl_plugins.objectives import CMC
from ccl_plugins.pairs import Pairs


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("graph", ["full", "core"])
def test_equals_the_slow_loop_in_value_and_gradient(graph, reduction):
    views = random_views(4)
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    if graph == "core":
        pairs = [(i, j) for i, j in pairs if 0 in (i, j)]
    slow = sum(slow_loops.infonce(views[i], views[j], 0.3) for i, j in pairs)
    if reduction == "mean":
        slow = slow / len(pairs)
    assert_same(CMC(0.3, graph=graph, reduction=reduction)(*views), slow, views)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 0.0}, r"temperature .* not 0.0"),
        ({"graph": "star"}, "'full', 'core'"),
        ({"reduction": "none"}, "'sum', 'mean'"),
    ],
)
def test_values_out_of_range_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        CMC(**settings)


@pytest.mark.parametrize(
    ("anchor_views", "key_views", "core"),
    [
        ((2, 5, 7), (2, 5, 7), [(0, 1), (0, 2), (1, 0), (2, 0)]),
        ((3, 4), (1, 3), [(0, 0), (1, 0)]),
        ((1, 2), (2, 3), [(0, 0), (0, 1)]),
    ],
)
def test_the_core_is_the_first_view_of_anchors_or_keys(anchor_views, key_views, core):
    pairs = Pairs(
        torch.ones(len(anchor_views), 2, 3),
        torch.ones(len(key_views), 2, 3),
        anchor_views,
        key_views,
    )
    assert CMC(graph="core").compared(pairs) == core

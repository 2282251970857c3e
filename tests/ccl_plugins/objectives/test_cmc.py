from __future__ import annotations

import pytest
from support import slow_loops
from support.slow_cacr import assert_same, random_views

from ccl_plugins.objectives import CMC


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

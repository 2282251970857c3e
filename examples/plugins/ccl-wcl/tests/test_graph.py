"""Components are those that scipy finds."""

import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ccl_wcl.graph import components, nearest, weak_labels


def together(ids):
    return ids[..., :, None] == ids[..., None, :]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 65])
@pytest.mark.parametrize("ties", [False, True])
def test_components_are_those_of_the_undirected_graph(n, ties):
    torch.manual_seed(n)
    x = torch.randint(-1, 2, (2, n, 3)).double() if ties else torch.randn(2, n, 4)
    neighbor = nearest(x)
    for edges, ids in zip(neighbor, components(neighbor), strict=True):
        graph = coo_array((torch.ones(n), (torch.arange(n), edges)), shape=(n, n))
        expected = torch.from_numpy(connected_components(graph, directed=False)[1])
        torch.testing.assert_close(together(ids), together(expected))


def test_a_long_chain_and_a_long_cycle_are_one_component_each():
    chain = torch.arange(1, 101).clamp_max(99)  # 99 points to itself
    cycle = torch.arange(1, 101) % 100
    assert components(torch.stack([chain, cycle])).tolist() == [[99] * 100, [0] * 100]


def test_clusters_that_are_apart_are_never_joined():
    torch.manual_seed(0)
    x = torch.eye(3).repeat_interleave(5, 0) + 0.01 * torch.randn(15, 3)
    ids = weak_labels(x)
    cluster = torch.arange(15) // 5
    assert not (together(ids) & ~together(cluster)).any()
    assert all((ids[cluster == c].unique(return_counts=True)[1] >= 2).all() for c in range(3))

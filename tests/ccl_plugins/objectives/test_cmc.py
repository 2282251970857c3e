from __future__ import annotations

from functools import partial

import oracle
import pytest
import sharded
import slow_loops
import torch
from slow_cacr import TOLERANCE, assert_same, random_views

from ccl_plugins.objectives import CMC


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["cmc_4views", "cmc_K4_query_plus_4"])
def test_equals_the_stored_values(name, dtype):
    case = oracle.case(name)
    views, tau = oracle.tensors(case["inputs"], dtype)["views"], case["params"]["tau"]
    extras = case["extras"]
    for objective, expected in (
        (CMC(tau), case["expected_paper"]),
        (CMC(tau, graph="core"), extras["core_graph"]),
        (CMC(tau, reduction="mean"), extras["mean_over_directed_pairs"]),
    ):
        expected = torch.tensor(expected, dtype=dtype)
        torch.testing.assert_close(objective(*views), expected, rtol=TOLERANCE[dtype], atol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_an_embedding_of_attributes_is_a_view(dtype):
    case = oracle.case("cmc_attribute_view")
    data = oracle.tensors(case["inputs"], dtype)
    loss = CMC(case["params"]["tau"])(data["x"], data["a"])
    expected = torch.tensor(case["expected_paper"], dtype=dtype)
    torch.testing.assert_close(loss, expected, rtol=TOLERANCE[dtype], atol=0)


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


@pytest.mark.parametrize("batch", ["two samples", "identical rows", "zero vectors"])
def test_degenerate_batches_are_finite(batch):
    views = torch.randn(3, 2 if batch == "two samples" else 5, 4)
    if batch == "identical rows":
        views = views[:1, :1].repeat(3, 5, 1)
    if batch == "zero vectors":
        views = views * 0
    views.requires_grad_()
    loss = CMC(0.01)(*views)
    loss.backward()
    assert loss.isfinite()
    assert views.grad.isfinite().all()


def test_compiles_without_graph_breaks():
    views, objective = random_views(3), CMC(graph="core")
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*views), objective(*views))


def test_two_processes_equal_one(two_processes):
    views, build = random_views(3, n=8).detach(), partial(CMC, 0.3)
    expected = sharded.whole(build, views, {})
    for found in two_processes(sharded.loss_and_gradient, build, views, {}):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


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

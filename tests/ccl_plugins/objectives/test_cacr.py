"""CACR against the stored numbers and against loops over single samples, value and gradient."""

from __future__ import annotations

from functools import partial

import oracle
import pytest
import sharded
import torch
from slow_cacr import (
    TOLERANCE,
    assert_gradient,
    assert_same,
    distance,
    random_views,
    slow_attraction,
    slow_rbf,
    slow_repulsion,
)
from torch.nn.functional import normalize

from ccl_plugins.objectives import CACR
from ccl_plugins.pairs import Pairs, in_batch

WITHOUT = {
    "full": {},
    "without_w1": {"conditional_positives": False},
    "without_w2": {"conditional_negatives": False},
    "none": {"conditional_positives": False, "conditional_negatives": False},
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", oracle.names("cacr_K*"))
def test_equals_the_stored_values_and_gradients(name, dtype):
    case = oracle.case(name)
    p, extras = case["params"], case["extras"]
    views = oracle.tensors(case["inputs"], dtype)["views"].requires_grad_()
    build = partial(
        CACR, p["t_plus"], p["t_minus"], positives=len(views) - 1, **WITHOUT[p["choice"]]
    )
    released = partial(
        build,
        negatives="later_view",
        attraction_weight=p["alpha"],
        repulsion_weight=p["beta"],
    )
    paper = build(symmetric=False)(*views)
    for loss, key in ((paper, "expected_paper"), (released()(*views), "expected_code")):
        expected = torch.tensor(case[key], dtype=dtype)
        torch.testing.assert_close(loss, expected, rtol=TOLERANCE[dtype], atol=0)
    if dtype == torch.float64:
        for weight_gradient, key in ((True, "grad_code"), (False, "grad_weights_detached")):
            if extras[key]:
                loss = released(weight_gradient=weight_gradient)(*views)
                assert_gradient(torch.autograd.grad(loss, views)[0], extras[key])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", oracle.names("cacr_rbf_repulsion_*"))
def test_rbf_repulsion_equals_the_stored_values(name, dtype):
    case = oracle.case(name)
    views = oracle.tensors(case["inputs"], dtype)["views"]
    build = partial(CACR, t_minus=case["params"]["t_minus"], cost="rbf", attraction_weight=0.0)
    build = partial(build, precision=case["params"]["t"])
    for objective, expected in (
        (build(symmetric=False), case["expected_paper"]),
        (build(negatives="later_view"), case["expected_code"]),
        (
            build(symmetric=False, conditional_negatives=False),
            case["extras"]["uniform_weights"],
        ),
    ):
        torch.testing.assert_close(
            objective(*views), torch.tensor(expected, dtype=dtype), rtol=TOLERANCE[dtype], atol=0
        )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_debiased_repulsion_has_the_right_sign(dtype):
    case = oracle.case("cacr_debiased_repulsion")
    tau, t_minus = case["params"]["tau_plus"], case["params"]["t_minus"]
    views = oracle.tensors(case["inputs"], dtype)["views"]
    objective = CACR(t_minus=t_minus, negatives="later_view", tau_plus=tau, attraction_weight=0.0)
    expected = torch.tensor(case["expected_paper"], dtype=dtype)
    torch.testing.assert_close(objective(*views), expected, rtol=TOLERANCE[dtype], atol=0)
    if dtype == torch.float64:
        x, y = views
        own = sum(distance(a, b) for a, b in zip(x, y, strict=True)) / len(x)
        repelled = slow_repulsion(x, y, t_minus)
        for sign, key in ((1, "expected_paper"), (-1, "expected_code")):
            value = ((repelled + sign * tau * own) / (1 - tau)).item()
            torch.testing.assert_close(value, case[key], rtol=1e-9, atol=0)


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("count", [2, 4])
def test_equals_the_slow_loop_in_value_and_gradient(count, detach):
    views, t_plus, t_minus = random_views(count), 0.7, 1.3
    build = partial(CACR, t_plus, t_minus, weight_gradient=not detach, attraction_weight=1.5)
    attraction = [1.5 * slow_attraction(views, i, t_plus, detach) for i in range(count)]
    for negatives, compared in {
        "same_view": [(i, i) for i in range(count)],
        "other_view": [(i, j) for i in range(count) for j in range(count) if i != j],
        "later_view": [(i, j) for i in range(count) for j in range(i + 1, count)],
    }.items():
        for symmetric in (True, False):
            chosen = [
                slow_repulsion(views[i], views[j], t_minus, detach)
                for i, j in compared
                if symmetric or i == 0
            ]
            near = attraction if symmetric else attraction[:1]
            slow = sum(near) / len(near) + sum(chosen) / len(chosen)
            fast = build(negatives=negatives, symmetric=symmetric)(*views)
            assert_same(fast, slow, views)


def test_rbf_cost_equals_the_slow_loop_in_value_and_gradient():
    views = random_views(3, seed=1)
    slow = sum(slow_attraction(views, i, 0.7) + slow_rbf(views[i], 1.3, 0.9) for i in range(3)) / 3
    assert_same(CACR(0.7, 1.3, cost="rbf", precision=0.9)(*views), slow, views)


def test_what_is_no_negative_does_not_count():
    views = normalize(random_views(2), dim=-1)
    negatives = ~torch.eye(6, dtype=torch.bool)
    negatives[:, 3] = negatives[3, :] = False
    pairs = Pairs.from_masks(views, torch.zeros_like(negatives), negatives)
    rest = torch.tensor([0, 1, 2, 4, 5])
    expected = CACR().terms(in_batch(views[:, rest]))[0]
    values = CACR().terms(pairs)[0]
    torch.testing.assert_close(values[:, rest], expected)
    attracted = (views[0, 3] - views[1, 3]).square().sum()
    torch.testing.assert_close(values[0, 3], attracted)  # nothing is left that repels it


@pytest.mark.parametrize("cost", ["euclidean", "rbf"])
@pytest.mark.parametrize("batch", ["two samples", "identical rows", "zero vectors"])
def test_degenerate_batches_are_finite(batch, cost):
    views = torch.randn(3, 2 if batch == "two samples" else 5, 4)
    if batch == "identical rows":
        views = views[:1, :1].repeat(3, 5, 1)
    if batch == "zero vectors":
        views = views * 0
    views.requires_grad_()
    loss = CACR(cost=cost)(*views)
    loss.backward()
    assert loss.isfinite()
    assert views.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_in_float32(dtype):
    views = random_views(3).detach().float()
    with torch.autocast("cpu", dtype):
        low = CACR()(*views.to(dtype))
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, CACR()(*views), rtol=3e-2, atol=0)


@pytest.mark.parametrize("cost", ["euclidean", "rbf"])
def test_compiles_without_graph_breaks(cost):
    views, objective = random_views(3), CACR(cost=cost)
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*views), objective(*views))


@pytest.mark.parametrize("cost", ["euclidean", "rbf"])
def test_two_processes_equal_one(cost, two_processes):
    views, build = random_views(3, n=8).detach(), partial(CACR, cost=cost)
    expected = sharded.whole(build, views, {})
    for found in two_processes(sharded.loss_and_gradient, build, views, {}):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"t_plus": 0.0}, "t_plus .* not 0.0"),
        ({"t_minus": -1.0}, "t_minus .* not -1.0"),
        ({"positives": 0}, "positives must be 1 or more, or None, not 0"),
        ({"attraction_weight": -0.5}, "attraction_weight .* not -0.5"),
        ({"cost": "cosine"}, "'euclidean', 'rbf'"),
        ({"precision": 0.0}, "precision .* not 0.0"),
        ({"negatives": "queue"}, "'same_view', 'other_view', 'later_view'"),
        ({"tau_plus": 1.0}, "tau_plus .* not 1.0"),
        ({"tau_plus": 0.1, "cost": "rbf"}, "not rbf"),
    ],
)
def test_values_out_of_range_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        CACR(**settings)


def test_another_number_of_views_is_refused():
    views = random_views(5)
    with pytest.raises(ValueError, match="CACR needs at least 5 views, not 3"):
        CACR(positives=4)(*views[:3])
    with pytest.raises(ValueError, match="needs 2 views beside the query's, not 4"):
        CACR(positives=2)(*views)

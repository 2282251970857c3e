"""CACR against loops over single samples, value and gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from support.slow_cacr import (
    assert_same,
    distance,
    moved,
    random_views,
    slow_attraction,
    slow_repulsion,
)
from torch.nn.functional import normalize

from ccl_plugins.evaluators.conditional_entropy import conditional_entropy
from ccl_plugins.objectives import CACR, AlignUniform
from ccl_plugins.objectives.cacr import expected_repulsion
from ccl_plugins.pairs import Pairs, in_batch


def test_weights_carry_no_gradient_if_asked():
    views = random_views(3)
    near = [slow_attraction(views, i, 0.7, detach=True) for i in range(3)]
    far = [slow_repulsion(view, view, 1.3, detach=True) for view in views]
    fast = CACR(t_plus=0.7, t_minus=1.3, weight_gradient=False)(*views)
    assert_same(fast, sum(near) / 3 + sum(far) / 3, views)


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


def test_another_number_of_views_is_refused():
    views = random_views(5)
    with pytest.raises(ValueError, match="CACR needs at least 5 views, not 3"):
        CACR(positives=4)(*views[:3])
    with pytest.raises(ValueError, match="needs 2 views beside the query's, not 4"):
        CACR(positives=2)(*views)


@pytest.mark.parametrize("detach", [False, True])
def test_the_rbf_cost_s_weights_carry_gradient_only_if_asked(detach):
    views, total = random_views(2, seed=1), 0.0
    for view in views:
        each = 0.0
        for n in range(6):
            costs = [distance(view[n], view[m]) for m in range(6) if m != n]
            seen = [c.detach() for c in costs] if detach else costs
            each = each + moved([torch.exp(-0.9 * c) for c in costs], seen, -1.3)
        total = total + torch.log(each / 6) / 2
    objective = CACR(
        t_plus=1,
        t_minus=1.3,
        cost="rbf",
        precision=0.9,
        attraction_weight=0,
        weight_gradient=not detach,
    )
    assert_same(objective(*views), total, views)


DRAWS = torch.tensor([[1, 2, 2], [0, 3, 5], [4, 1, 0], [5, 5, 1], [2, 0, 3], [1, 4, 0]])


@pytest.mark.parametrize("negatives", ["same_view", "other_view"])
def test_drawn_negatives_take_the_place_of_all_others(negatives):
    views, values = random_views(2), []
    for i in range(2):
        far = views[i] if negatives == "same_view" else views[1 - i]
        for n in range(6):
            costs = [distance(views[i, n], far[k]) for k in DRAWS[n]]
            values.append(distance(views[i, n], views[1 - i, n]) - moved(costs, costs, -2.0))
    pairs = replace(in_batch(normalize(views, dim=-1)), draws=DRAWS)
    assert_same(CACR(negatives=negatives).loss(pairs), sum(values) / len(values), views)


def test_another_number_of_views_is_quoted():
    views = normalize(random_views(3), dim=-1)
    for positives, words in ((1, "1"), (3, "3")):
        with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
            CACR(positives=positives).terms(in_batch(views))
        assert str(error.value) == f"CACR needs {words} views beside the query's, not 2"
    alone = Pairs(views[:1], views[:1], (0,), (0,))
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        CACR().terms(alone)
    assert str(error.value) == "CACR needs one or more views beside the query's, not 0"


def test_the_attraction_is_0_only_where_all_positives_are_at_the_query():
    """Property 1 of Zheng et al. (2023)."""
    views, attraction = random_views(3), CACR(repulsion_weight=0)
    assert attraction(*[views[0]] * 3) < 1e-12
    assert attraction(views[0], views[0], views[1]) > 0.1


def test_without_weights_or_with_one_positive_the_attraction_is_the_alignment():
    """Lemma 4.1 of Zheng et al. (2023)."""
    views, alignment = random_views(4), AlignUniform(uniform_weight=0)
    equal = CACR(conditional_positives=False, repulsion_weight=0)
    torch.testing.assert_close(equal(*views), alignment(*views))
    one = CACR(repulsion_weight=0)
    torch.testing.assert_close(one(*views[:2]), alignment(*views[:2]))


@pytest.mark.parametrize("t_minus", [0.5, 1.0, 3.0])
def test_the_repulsion_is_at_most_uniformity_and_mutual_information(t_minus):
    """Lemma 4.3 of Zheng et al. (2023), for the samples of a batch."""
    x = random_views(1)[0]
    repulsion = CACR(t_minus=t_minus, attraction_weight=0)(x, x)
    mutual = math.log(len(x) - 1) - conditional_entropy(x, t_minus)
    uniformity = AlignUniform(precision=1.0, align_weight=0)(x, x)
    assert repulsion <= uniformity + mutual


def test_rows_of_a_repulsion_do_not_change_each_other():
    products = torch.tensor([[1.0, 0.9, 0.8], [-0.9, -1.0, -0.8]], dtype=torch.float64)
    found = expected_repulsion(products, torch.ones(2, 3, dtype=torch.bool), 1000.0, 3)
    torch.testing.assert_close(found, torch.tensor([0.0, -3.6], dtype=torch.float64))

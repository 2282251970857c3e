"""SCL and H-SCL against a slow loop, value and gradient."""

from __future__ import annotations

import pytest
import torch
from support import slow_hardness
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.objectives import HSCL, HUCL, SCL, UCL

HARD = {"beta": 1.7, "threshold": 0.6}


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        (SCL(0.3), {}),
        (SCL(0.3, o="negatives", within_view=False), {"o": "negatives", "within": False}),
        (SCL(0.3, positives="all", o=3), {"all_positives": True, "o": 3}),
        (SCL(0.3, positives="all", average="anchors"), {"all_positives": True, "by_anchor": True}),
        (HSCL(0.3, beta=1.7), {"beta": 1.7}),
        (HSCL(0.3, beta=1.7, weight_gradient=False), {"beta": 1.7, "fixed": True}),
        (HSCL(0.3, positives="all", **HARD), {"all_positives": True, **HARD}),
        (
            HSCL(0.3, positives="all", within_view=False, average="anchors", **HARD),
            {"all_positives": True, "within": False, "by_anchor": True, **HARD},
        ),
    ],
    ids=[
        "scl",
        "cross-view",
        "all by pairs",
        "all by anchors",
        "hscl",
        "fixed weights",
        "hard, by pairs",
        "hard, by anchors",
    ],
)
def test_equals_the_slow_loop_in_value_and_gradient(objective, settings):
    torch.manual_seed(7)
    x, y = (torch.randn(7, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.tensor([2, 0, 2, 1, 0, 2, 2])
    fast = objective(x, y, condition=labels)
    slow = slow_hardness.two_views(x, y, labels=labels.tolist(), tau=0.3, **settings)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        torch.autograd.grad(fast, (x, y)), torch.autograd.grad(slow, (x, y)), rtol=1e-9, atol=1e-12
    )


def test_an_anchor_without_other_classes_is_left_out():
    torch.manual_seed(0)
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    x.requires_grad_()
    for objective in (SCL(), HSCL(beta=5), HSCL(positives="all"), HSCL(beta=0, positives="all")):
        loss = objective(x, y, condition=torch.zeros(5).long())
        (gradient,) = torch.autograd.grad(loss, x)
        assert loss == 0
        assert gradient.eq(0).all()


def test_all_distinct_classes_are_the_unsupervised_loss():
    torch.manual_seed(0)
    x, y, ids = torch.randn(5, 4), torch.randn(5, 4), torch.arange(5)
    for positives in ("one", "all"):
        loss = HSCL(0.3, beta=2.0, positives=positives)(x, y, condition=ids)
        torch.testing.assert_close(loss, HUCL(0.3, beta=2.0)(x, y))


def test_a_hierarchy_of_ids_is_refused_with_the_way_out():
    x = torch.randn(4, 3)
    with pytest.raises(ValueError, match=r"class id per sample, \(b,\), not \(4, 2\)"):
        SCL()(x, x, condition=torch.zeros(4, 2).long())


def scores_of_others(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``e^g`` of all embeddings of two views at temperature 0.5, and which are of different samples."""
    unit, sample = normalize(torch.cat([x, y]), dim=1), torch.arange(len(x)).repeat(2)
    return (2 * unit @ unit.mT).exp(), sample[:, None] != sample


def mean_over(mask: Tensor, scores: Tensor) -> Tensor:
    assert mask.any(1).all()
    return (scores * mask).sum(1) / mask.sum(1)


@pytest.mark.parametrize("own_class_is_near", [True, False])
def test_h_scl_is_bounded_by_h_ucl_where_the_own_class_is_nearer(own_class_is_near):
    """Lemma 5.1 of Jiang et al. (2022); where its assumption is false, so may be the bound."""
    torch.manual_seed(0)
    group = torch.arange(24) % 2
    center = torch.eye(3)[group]
    x, y = (center + 0.1 * torch.randn(24, 3) for _ in range(2))
    labels = group if own_class_is_near else torch.arange(24) // 2
    scores, other = scores_of_others(x, y)
    hard, same = other & (scores >= 0.5), labels.repeat(2)[:, None] == labels.repeat(2)
    assumption = mean_over(hard & same, scores) >= mean_over(hard & ~same, scores)
    assert assumption.eq(own_class_is_near).all()
    settings = {"beta": 0.0, "threshold": 0.5, "o": 1.0}
    bound = HUCL(0.5, **settings)(x, y)
    assert (HSCL(0.5, **settings)(x, y, condition=labels) <= bound) == own_class_is_near


def test_ucl_is_bounded_by_h_scl_with_a_threshold_above_the_mean():
    """Lemma 5.2 of Jiang et al. (2022): minimizing the loss of UCL bounds nothing."""
    torch.manual_seed(0)
    x, y, labels = torch.randn(30, 3), torch.randn(30, 3), torch.arange(30) % 3
    scores, other = scores_of_others(x, y)
    threshold = mean_over(other, scores).max()
    different = labels.repeat(2)[:, None] != labels.repeat(2)
    assert (different & (scores >= threshold)).any(1).all()
    hard = HSCL(0.5, beta=0, threshold=float(threshold), o=1)(x, y, condition=labels)
    assert UCL(0.5, o=1)(x, y) < hard

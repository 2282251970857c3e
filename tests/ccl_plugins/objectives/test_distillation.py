from __future__ import annotations

import math

import pytest
import torch

from ccl_plugins.objectives import Distillation, Guided, InfoNCE, Mixture
from ccl_plugins.pairs import Samples, in_batch


def normal(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


PROJECTIONS, FEATURES, TEACHER = (
    normal(2, 6, 3, seed=0),
    normal(2, 6, 5, seed=1),
    normal(6, 5, seed=2),
)

REVERSED = {"keep": False, "suppress": "reversal"}


def loss(objective, features, teacher=TEACHER, **known):
    samples = Samples({"condition": teacher}, features=features, **known)
    return objective.loss(in_batch(torch.nn.functional.normalize(PROJECTIONS, dim=-1), samples))


def cosine(a, b):
    return (a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()


def slow(form, views, teacher, temperature, kept=range(6)):
    """Sample by sample, over the samples that are kept."""
    found = []
    for x in views:
        for i in kept:
            if form == "feature":
                found.append(1 - cosine(x[i], teacher[i]))
                continue
            others = [j for j in kept if j != i]
            p, q = (
                [torch.exp(cosine(v[i], v[j]) / temperature) for j in others] for v in (teacher, x)
            )
            found.append(
                sum(
                    a / sum(p) * torch.log((a / sum(p)) / (b / sum(q)))
                    for a, b in zip(p, q, strict=True)
                )
            )
    return sum(found) / len(found)


@pytest.mark.parametrize("form", ["feature", "relational"])
def test_it_is_zero_for_the_teachers_features_in_any_unit_and_above_for_others(form):
    same = torch.stack([3 * TEACHER, 0.1 * TEACHER])
    assert abs(loss(Distillation(form), same).item()) < 1e-12
    assert loss(Distillation(form), FEATURES).item() > 0.1


def test_relations_are_those_of_features_that_are_turned_or_of_another_width():
    turn = torch.linalg.qr(normal(5, 5, seed=3))[0]
    turned = (TEACHER @ turn).expand(2, -1, -1)
    assert abs(loss(Distillation("relational"), turned).item()) < 1e-12
    assert loss(Distillation("feature"), turned).item() > 0.1
    wider = torch.cat([turned, torch.zeros(2, 6, 4)], 2)
    assert abs(loss(Distillation("relational"), wider).item()) < 1e-12
    with pytest.raises(ValueError, match=r"width 9 with the condition 'condition' of width 5"):
        loss(Distillation("feature"), wider)


@pytest.mark.parametrize("form", ["feature", "relational"])
def test_samples_without_a_value_are_neither_compared_nor_counted(form):
    gap = TEACHER.clone()
    gap[[1, 4]] = math.nan
    x = FEATURES.clone().requires_grad_()
    found = loss(Distillation(form, temperature=0.3), x, gap, ignored=("condition",))
    expected = slow(form, x, TEACHER, 0.3, kept=[0, 2, 3, 5])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    (gradient,) = torch.autograd.grad(found, x)
    assert gradient.isfinite().all()
    assert not gradient[:, [1, 4]].any()


def test_a_batch_of_one_sample_has_no_relations():
    found = Distillation("relational").terms(
        in_batch(PROJECTIONS[:, :1], Samples({"condition": TEACHER[:1]}, features=FEATURES[:, :1]))
    )
    assert [each.tolist() for each in found] == [[[0.0], [0.0]], [[0.0], [0.0]]]


def test_with_partners_the_first_view_alone_is_read():
    found = loss(Distillation(), FEATURES, partner=torch.tensor([1, 0, 3, 2, 5, 4]))
    torch.testing.assert_close(found, slow("feature", FEATURES[:1], TEACHER, 1.0))


@pytest.mark.parametrize("form", ["feature", "relational"])
def test_extreme_features_have_a_finite_gradient(form):
    for scale in (0.0, 1e-30, 1e20):
        x = (scale * FEATURES.float()).requires_grad_()
        found = loss(Distillation(form, temperature=0.01), x, TEACHER.float())
        assert found.isfinite()
        assert torch.autograd.grad(found, x)[0].isfinite().all()


def test_its_weight_in_a_mixture_can_be_scheduled():
    weight = {"schedule": "linear", "start": 0.0, "end": 2.0}
    mixture = Mixture([InfoNCE(), Distillation()], [1, weight])
    assert mixture.reads_features
    base, held = loss(InfoNCE(), FEATURES), loss(Distillation(), FEATURES)
    for step, share in ((0, 0.0), (5, 1.0), (10, 2.0)):
        mixture.progress(step, 11)
        torch.testing.assert_close(loss(mixture, FEATURES), base + share * held)


@pytest.mark.parametrize("form", ["feature", "relational"])
@pytest.mark.parametrize(("ways", "sign"), [({"keep": True}, 1), (REVERSED, -1)])
def test_it_is_a_guide_on_features(form, ways, sign):
    guide = {"on": "condition", "by": Distillation(form), "weight": 0.5, **ways}
    x = FEATURES.clone().requires_grad_()
    guided = Guided(InfoNCE(), [guide])
    base, held = loss(InfoNCE(), FEATURES), loss(Distillation(form), x)
    found = loss(guided, x)
    torch.testing.assert_close(found, base + 0.5 * held)
    expected = torch.autograd.grad(sign * 0.5 * held, x)
    torch.testing.assert_close(torch.autograd.grad(found, x), expected)
    torch.testing.assert_close(
        guided.scalars()["condition/loss"].double(), held.detach(), rtol=1e-5, atol=0
    )

"""Heads alone: what one of your own has to define, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from ccl_plugins.objectives import (
    Classification,
    Distillation,
    Guide,
    Guided,
    GuideHead,
    InfoNCE,
    KoLeo,
    Mixture,
    Prototypes,
    Regression,
    SupCon,
)
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Sizes, Table

N, F = 6, 4
GENERATOR = torch.Generator().manual_seed(0)
FEATURES = torch.randn(2, N, F, generator=GENERATOR, dtype=torch.float64)
IDS = torch.tensor([0, 1, 2, 0, 1, 2])
AGE = torch.rand(N, 2, generator=GENERATOR, dtype=torch.float64)
SIZES = Sizes(samples=N, embedding=3, features=F, steps=10)


def pairs_of(features=FEATURES, **known):
    samples = Samples({"digit": IDS, "age": AGE}, features=features, **known)
    return in_batch(normalize(FEATURES[..., :3], dim=-1), samples)


def ready(head, **tables):
    """With layers drawn from a fixed seed."""
    torch.manual_seed(0)
    head.setup(tables or {"digit": Table(IDS), "age": Table(AGE)}, SIZES)
    return head.double()


class Least(GuideHead):
    """The least that a head has to define: it predicts a number by one layer."""

    value_types = ("continuous",)

    def setup(self, tables, sizes):
        self.layer = nn.Linear(self.width(sizes), self.table(tables).values.shape[1])

    def predict(self, x, frozen):
        weight, bias = self.layer.weight, self.layer.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()
        return nn.functional.linear(x, weight, bias)

    def errors(self, predicted, z):
        return (predicted - z).abs().mean(-1)


def test_a_head_of_three_methods_keeps_and_is_reversed():
    head = ready(Least("age"))
    expected = (head.layer(FEATURES) - AGE).abs().mean()
    features = FEATURES.clone().requires_grad_()
    pairs = pairs_of(features)
    found = head.loss(pairs)
    torch.testing.assert_close(found, expected)
    assert [*head.scalars()] == ["loss"]
    torch.testing.assert_close(head.scalars()["loss"].double(), expected)
    guided = Guided(InfoNCE(), [Guide("age", False, Least())])
    ready(guided)
    reversed_ = guided.loss(pairs) - InfoNCE().loss(pairs)
    torch.testing.assert_close(reversed_, expected)
    torch.testing.assert_close(
        torch.autograd.grad(reversed_, features), torch.autograd.grad(-found, features)
    )
    with pytest.raises(ValueError, match="takes suppress = 'reversal', not 'uniform'"):
        Guided(InfoNCE(), [Guide("age", False, Least(), suppress="uniform")])


def test_what_a_head_declares_and_does_not_define_is_named():
    class Promising(Least):
        quality = "r2"
        suppressions = ("uniform", "least_squares")

    head = ready(Promising("age"))
    with pytest.raises(NotImplementedError, match=r"Promising has a quality and no hits\(pred"):
        head.loss(pairs_of(FEATURES.clone().requires_grad_()))
    for way, missing in (("uniform", "unsure"), ("least_squares", "residuals")):
        head.serve("features", way)
        with pytest.raises(NotImplementedError, match=rf"Promising has no {missing}\("):
            head.terms(pairs_of())


@pytest.mark.parametrize("cls", [Classification, Prototypes, Regression])
def test_a_head_reads_the_features_of_one_view_and_no_queue(cls):
    head = cls()
    assert (head.reads_features, head.reads_queue, head.min_views) == (True, False, 1)
    assert (head.at, head.suppress, head.on) == ("features", None, "condition")
    head.serve("projection", "reversal")
    assert not head.reads_features


@pytest.mark.parametrize(
    ("head", "usual"),
    [
        (Classification(), ("reversal", "uniform", "least_squares")),
        (Classification(hidden=3), ("reversal", "uniform")),
        (Prototypes(), ("reversal", "uniform")),
        (Regression(), ("least_squares", "reversal")),
        (Regression(hidden=3), ("reversal",)),
    ],
)
def test_the_ways_to_suppress_begin_with_the_usual_one(head, usual):
    assert head.suppressions == usual
    guided = Guided(InfoNCE(), [Guide("z", False, head)])
    assert guided.parts["z"].objective.suppress == usual[0]


def test_a_condition_that_is_computed_in_every_step_is_refused():
    drawn = SimpleNamespace(refresh="batch", value_type="categorical")
    table = SimpleNamespace(refresh="epoch", value_type="categorical")
    guided = Guided(InfoNCE(), [Guide("digit", True, Classification())])
    for each in (Classification(on="digit"), Mixture([Classification(on="digit")]), guided):
        each.check_read("digit", table)
        with pytest.raises(
            ValueError, match=r"Classification of 'digit' learns a head .* 'digit' is"
        ):
            each.check_read("digit", drawn)
    guided.check_read("another", drawn)


def test_a_condition_of_another_type_is_refused_by_its_guide():
    guides = [Guide("age", False, Regression()), Guide("digit", True, Classification())]
    guided = Guided(InfoNCE(), guides)
    numbers = SimpleNamespace(refresh="never", value_type="continuous")
    for name in ("age", "another"):
        guided.check_read(name, numbers)
    with pytest.raises(
        ValueError, match=r"by Classification needs a categorical or multi_label .* is continuous"
    ):
        guided.check_read("digit", numbers)


@pytest.mark.parametrize(
    "objective",
    [
        Classification(on="digit"),
        Guided(InfoNCE(), [Guide("digit", True, Classification())]),
        Guided(InfoNCE(), [Guide("digit", True, SupCon(), at="features")]),
        Distillation(on="age"),
        KoLeo(at="features"),
    ],
    ids=["head", "guide", "objective", "distillation", "KoLeo"],
)
def test_pairs_without_features_are_refused(objective):
    with pytest.raises(ValueError, match="reads features, and these pairs have none"):
        objective.loss(pairs_of(None))


def test_features_of_fewer_views_than_a_guide_compares_are_refused():
    guided = Guided(InfoNCE(), [Guide("digit", True, SupCon(), at="features")])
    with pytest.raises(ValueError, match=r"compares 2 views, and .* features of 1: give it at ="):
        guided.loss(pairs_of(FEATURES[:1]))


def test_values_of_another_width_or_class_are_refused():
    bits = {"digit": Table(torch.eye(3)[IDS])}
    for head in (Classification(on="digit"), Regression(on="digit")):
        ready(head, **bits)
        for z in (AGE, torch.stack([AGE, AGE])):
            pairs = replace(pairs_of(), samples=Samples({"digit": z}, features=FEATURES))
            with pytest.raises(ValueError, match="digit has 2 columns, but the head predicts 3"):
                head.loss(pairs)
    classes = ready(Classification(on="digit"))
    classes.check_condition({"digit": AGE + 3})  # columns are no class ids
    with pytest.raises(ValueError, match="digit holds the class id 3, and the head has 3 classes"):
        classes.check_condition({"digit": IDS + 1})
    with pytest.raises(
        ValueError, match=r"'digit' needs a table .* the tables are of 'age', and a"
    ):
        classes.setup({"age": Table(AGE)}, SIZES)
    with pytest.raises(ValueError, match=r"the tables are of no condition"):
        classes.setup({}, SIZES)


@pytest.mark.parametrize("cls", [Classification, Prototypes])
def test_there_are_as_many_classes_as_the_table_has_and_two_at_least(cls):
    def rows(head, ids):
        ready(head, digit=Table(ids))
        return len(head.weight if cls is Classification else head.prototypes)

    assert rows(cls(on="digit"), IDS) == 3
    assert rows(cls(on="digit"), IDS * 0) == 2
    assert rows(cls(on="digit", classes=7), IDS) == 7
    assert rows(cls(on="digit", classes=3), IDS) == 3
    with pytest.raises(ValueError, match=f"{cls.__name__} of 'digit' has classes=2, and .* to 2"):
        rows(cls(on="digit", classes=2), IDS)


def test_layers_that_exist_stay():
    head = ready(Regression(hidden=5, on="age"))
    before = [each.clone() for each in head.parameters()]
    head.setup({"age": Table(AGE * 9 + 2)}, SIZES)
    for one, other in zip(before, head.parameters(), strict=True):
        assert torch.equal(one, other)
    torch.testing.assert_close(head.mean, AGE.mean(0))
    assert [tuple(each.shape) for each in before] == [(5, F), (5,), (2, 5), (2,)]


def test_a_column_that_is_constant_is_centered_alone():
    table = torch.cat([AGE[:, :1], torch.full((N, 1), 4.0)], 1)
    head = ready(Regression(on="age"), age=Table(table))
    found = head.standardized(table, FEATURES)
    torch.testing.assert_close(found[:, 0].std(correction=0), torch.ones(()).double())
    assert not found[:, 1].any()


def test_one_number_is_a_column():
    head = ready(Regression(on="age"), age=Table(AGE[:, 0]))
    losses = [
        head.loss(replace(pairs_of(), samples=Samples({"age": z}, features=FEATURES)))
        for z in (AGE[:, 0], AGE[:, :1])
    ]
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("at", ["features", "projection"])
def test_samples_without_a_value_fit_no_head_of_the_batch(at):
    guide = Guide("age", False, Regression(), at=at)
    guided = ready(Guided(InfoNCE(), [guide]))
    head = guided.parts["age"].objective
    missing = torch.tensor([False, True, False, False, True, False])
    features = FEATURES.clone().requires_grad_()
    pairs = pairs_of(features)
    some = replace(pairs, samples=replace(pairs.samples, missing=missing))
    known = Samples({"age": AGE[~missing]}, features=features[:, ~missing])
    kept = in_batch(pairs.anchors[:, ~missing], known)
    torch.testing.assert_close(head.loss(some), head.loss(kept))
    if at == "features":
        torch.testing.assert_close(
            torch.autograd.grad(head.loss(some), features),
            torch.autograd.grad(head.loss(kept), features),
        )


def test_values_that_differ_by_view_are_predicted_by_view():
    views = torch.stack([AGE, AGE.flip(0)])
    for head in (ready(Regression(on="age")), ready(Least("age"))):
        both = replace(pairs_of(), samples=Samples({"age": views}, features=FEATURES))
        each = [
            head.loss(replace(pairs_of(), samples=Samples({"age": z}, features=x[None])))
            for z, x in zip(views, FEATURES, strict=True)
        ]
        torch.testing.assert_close(head.loss(both), sum(each) / 2)


def test_prototypes_of_another_precision_are_read_in_that_of_the_features():
    head = ready(Prototypes(on="digit")).float()
    found = [head.loss(pairs_of(FEATURES.clone().requires_grad_())) for _ in range(2)]
    head.after_step()
    found.append(head.loss(pairs_of()))
    assert {each.dtype for each in found} == {torch.float64}
    expected = ready(Prototypes(on="digit"))
    expected.loss(pairs_of(FEATURES.clone().requires_grad_()))
    expected.after_step()
    torch.testing.assert_close(found[-1], expected.loss(pairs_of()), rtol=1e-6, atol=0)


def test_prototypes_log_how_often_the_nearest_is_the_own():
    head = ready(Prototypes(on="digit"))
    features = FEATURES.clone().requires_grad_()
    head.loss(pairs_of(features))
    head.after_step()
    head.loss(pairs_of(features))
    nearest = (normalize(FEATURES, dim=-1) @ head.prototypes.T).argmax(-1)
    found = head.scalars()
    assert [*found] == ["loss", "accuracy"]
    torch.testing.assert_close(found["accuracy"].double(), (nearest == IDS).double().mean())
    assert 0 < found["accuracy"] < 1


def test_prototypes_do_not_move_before_they_exist():
    head = Prototypes(on="digit")
    head.after_step()
    with pytest.raises(ValueError, match="Prototypes of 'digit' has no head yet: call setup"):
        head.loss(pairs_of())
    ready(head)
    head.after_step()
    assert not head.prototypes.any()
    assert not head.begun().any()

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.slow_cacr import random_views, softmax

from ccl_plugins.objectives import ClusterCrossEntropy
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Sizes, Table

IDS = torch.tensor([0, 2, 1, 1, 0, 2])


def with_double_weights(**settings):
    torch.manual_seed(0)
    return ClusterCrossEntropy(dim=5, classes=3, **settings).double()


def slow(objective, views):
    weight, bias, total = objective.head.weight, objective.head.bias, 0.0
    for view in views:
        for row, k in zip(view, IDS.tolist(), strict=True):
            shares = softmax([(w * row).sum() + b for w, b in zip(weight, bias, strict=True)])
            total = total - torch.log(shares[k])
    return total / len(views) / len(IDS)


def test_a_single_sample_is_classified_as_any():
    x, objective = random_views(1), with_double_weights()
    values, _ = objective.terms(in_batch(x, Samples({"condition": IDS})))
    torch.testing.assert_close(objective(x[0, :1], condition=IDS[:1]), values[0, 0])


def test_classifies_backbone_features_or_projections():
    features, projections = random_views(2), random_views(2, seed=1)
    pairs = in_batch(projections, Samples({"condition": IDS}, features=features))
    for of, chosen in (("backbone", features), ("projection", projections)):
        objective = with_double_weights(of=of)
        torch.testing.assert_close(objective.loss(pairs), slow(objective, chosen))


@pytest.mark.parametrize("of", ["backbone", "projection"])
def test_of_partners_the_first_view_alone_is_classified(of):
    x, objective = random_views(2), with_double_weights(of=of)
    known = Samples({"condition": IDS}, features=x, partner=torch.arange(6).flip(0))
    torch.testing.assert_close(objective.loss(in_batch(x, known)), slow(objective, x[:1]))


SIZES = Sizes(samples=6, embedding=4, features=5, steps=10)


@pytest.mark.parametrize(("of", "width"), [("backbone", 5), ("projection", 4)])
def test_setup_asks_the_user_for_no_width(of, width):
    objective = ClusterCrossEntropy(of=of, on="species")
    assert not list(objective.parameters())
    objective.setup({"species": Table(IDS)}, SIZES)
    assert [tuple(p.shape) for p in objective.parameters()] == [(3, width), (3,)]
    weight = objective.head.weight
    objective.setup({"species": Table(IDS)}, SIZES)
    assert objective.head.weight is weight


def test_setup_counts_no_classes_of_a_condition_without_a_table():
    objective = ClusterCrossEntropy(classes=3)
    objective.setup({}, SIZES)
    assert tuple(objective.head.weight.shape) == (3, 5)


def test_saved_weights_load_where_setup_made_the_layer():
    trained = ClusterCrossEntropy()
    trained.setup({"condition": Table(IDS)}, SIZES)
    loaded = ClusterCrossEntropy()
    loaded.load_state_dict(trained.state_dict())
    torch.testing.assert_close(loaded.state_dict(), trained.state_dict())


X = torch.randn(6, 5)


def test_a_condition_of_a_single_class_has_two_so_that_the_layer_can_be_saved_and_filled():
    objective = ClusterCrossEntropy()
    objective.setup({"condition": Table(IDS * 0)}, SIZES)
    assert objective.head.out_features == 2


def test_the_layer_exists_from_construction_only_if_both_sizes_are_given():
    assert ClusterCrossEntropy(dim=5).head is None
    assert ClusterCrossEntropy(classes=3).head is None
    head = ClusterCrossEntropy(dim=5, classes=3).head
    assert (head.in_features, head.out_features) == (5, 3)
    assert not ClusterCrossEntropy(dim=5, classes=3).gather_distributed


def test_setup_takes_the_width_and_the_classes_that_were_given():
    objective = ClusterCrossEntropy(dim=5, classes=4)
    weight = objective.head.weight
    objective.setup({"condition": Table(IDS)}, SIZES)
    assert objective.head.weight is weight
    more = ClusterCrossEntropy(classes=7)
    more.setup({"condition": Table(IDS)}, SIZES)
    assert more.head.out_features == 7


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS.float(), "class ids must be integers (n,), not torch.float32 (6,)"),
        (IDS[:, None], "class ids must be integers (n,), not torch.int64 (6, 1)"),
        (
            torch.tensor([0, -1, 2]),
            "class ids must be from 0 to 2, not -1 to 2: the objective has 3 classes",
        ),
        (
            torch.tensor([1, 3]),
            "class ids must be from 0 to 2, not 1 to 3: the objective has 3 classes",
        ),
    ],
)
def test_ids_that_the_layer_has_no_class_for_are_quoted(ids, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        ClusterCrossEntropy(dim=5, classes=3).setup({"condition": Table(ids)}, SIZES)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ClusterCrossEntropy(dim=4, classes=3, of="projection").setup(
                {}, replace(SIZES, embedding=6)
            ),
            "ClusterCrossEntropy has dim=4, and the vectors of of='projection' have 6 columns: leave"
            " dim out",
        ),
        (
            lambda: ClusterCrossEntropy(on="species").setup({}, SIZES),
            "ClusterCrossEntropy cannot count the classes of 'species', which has no table: give"
            " classes=...",
        ),
        (
            lambda: ClusterCrossEntropy(dim=5).terms(
                in_batch(X[None], Samples({"condition": IDS}))
            ),
            "ClusterCrossEntropy has no linear layer yet: give classes=... and dim=..., or call"
            " setup(tables, sizes)",
        ),
        (
            lambda: ClusterCrossEntropy(dim=4, classes=3)(X, condition=IDS),
            "dim is 4, but the vectors have 5 columns",
        ),
    ],
)
def test_what_does_not_fit_is_quoted(call, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        call()
    assert str(error.value) == message

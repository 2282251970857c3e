from __future__ import annotations

import pytest
import torch
from support.slow_infonce import random_batch
from torch.nn.functional import normalize

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import (
    CACR,
    SCL,
    AlignUniform,
    ClusterCrossEntropy,
    FairCCLK,
    InfoNCE,
    Mixture,
    SupCon,
    WeaklySupCCLK,
)
from ccl_plugins.pairs import Pairs, Samples, in_batch
from ccl_plugins.protocols import Sizes, Table

Z = torch.rand(7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def members():
    return {"fair": FairCCLK(RBF(), on="color"), "class": SupCon(0.2, on="label")}


def unlike():
    """Of rows of one and of two views' length, of means and of what needs all ranks' anchors."""
    return Mixture([SCL(on="label"), CACR(cost="rbf"), AlignUniform()], [0.5, 2, 1])


def test_is_the_weighted_sum_of_losses_that_read_their_own_conditions():
    (x, y), ids = random_batch()
    parts = members()
    mixture = Mixture(parts, {"class": 0.3, "fair": 2})
    expected = 2 * parts["fair"](x, y, condition=Z) + 0.3 * parts["class"](x, y, condition=ids)
    found = mixture(x, y, condition={"color": Z, "label": ids})
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(expected, x))
    assert dict(mixture.conditions) == {
        "color": ("categorical", "multi_label", "continuous"),
        "label": ("categorical",),
    }


def test_takes_inner_products_once():
    (x, y), ids = random_batch()
    views = normalize(torch.stack([x, y]), dim=-1)
    pairs = in_batch(views, Samples({"color": Z, "label": ids}))
    Mixture(members()).loss(pairs)
    before = dict(pairs._products)
    assert before
    InfoNCE().loss(pairs)
    assert all(pairs._products[key] is product for key, product in before.items())
    assert pairs._products.keys() == before.keys()


def test_an_objective_without_any_anchor_adds_nothing():
    (x, y), ids = random_batch()
    views, one_class = normalize(torch.stack([x, y]), dim=-1), {"condition": ids * 0}
    pairs = in_batch(views, Samples(one_class))
    mixture = Mixture([InfoNCE(), SCL()], [2, 1])
    torch.testing.assert_close(mixture.loss(pairs), 2 * InfoNCE().loss(pairs))
    values, weights = mixture.terms(pairs)
    torch.testing.assert_close((values * weights).sum() / weights.sum(), mixture.loss(pairs))


def test_its_declarations_follow_from_its_objectives():
    plain, wide = Mixture([InfoNCE(), CACR(positives=3)]), unlike()
    assert (plain.min_views, plain.within_view, plain.distributed) == (4, True, "mean")
    assert (wide.min_views, wide.embedding, wide.distributed) == (2, "sphere", "replicated")
    raw = Mixture([ClusterCrossEntropy(dim=5, classes=3), ClusterCrossEntropy(dim=5, classes=4)])
    assert raw.embedding == "raw"


ONE = {
    "hierarchies",
    "reads_queue",
    "reads_features",
    "reads_patches",
    "reads_projections",
    "adversarial",
    "stops_gradient",
    "within_view",
}
"""What a mixture declares if one objective does; of the others, if all do."""


@pytest.mark.parametrize("name", sorted(ONE | {"compiles", "in_parts"}))
def test_a_mixture_declares_what_one_or_what_all_declare(name):
    def declared(*values):
        parts = [InfoNCE() for _ in values]
        for part, value in zip(parts, values, strict=True):
            setattr(part, name, value)
        return getattr(Mixture(parts), name)

    assert declared(True) is declared(True, True) is True
    assert declared(False) is declared(False, False) is False
    assert declared(True, False) is declared(False, True) is (name in ONE)


def test_setup_progress_and_after_step_reach_the_objectives():
    class Counting(InfoNCE):
        steps = 0

        def after_step(self):
            self.steps += 1

    counting = Counting({"schedule": "linear", "start": 0.5, "end": 0.1})
    head = ClusterCrossEntropy()
    head.embedding = "sphere"
    rising = {"schedule": "linear", "start": 0, "end": 1}
    mixture = Mixture({"contrast": counting, "head": head}, {"contrast": 1, "head": rising})
    mixture.setup({"condition": Table(torch.arange(3))}, Sizes(3, 5, 5, 10))
    assert len(list(mixture.parameters())) == 2
    mixture.progress(9, 10)
    mixture.after_step()
    assert counting.steps == 1
    expected = {"contrast/temperature": torch.tensor(0.1), "head/weight": torch.tensor(1.0)}
    torch.testing.assert_close(mixture.scalars(), expected)


def test_saved_weights_load_where_an_objective_s_parameters_came_with_setup():
    trained, loaded = (Mixture([ClusterCrossEntropy()]) for _ in range(2))
    trained.setup({"condition": Table(torch.arange(3))}, Sizes(3, 5, 5, 10))
    loaded.load_state_dict(trained.state_dict())
    torch.testing.assert_close(loaded.state_dict(), trained.state_dict())


def test_is_read_from_a_config_and_recorded():
    color = {"use": "fair_cclk", "kernel": {"use": "rbf", "scale": 0.1}, "on": "color"}
    learned = {"learn": True, "start": 0.07}
    choice = ccl.objective(
        "mixture", objectives=[color, {"use": "supcon", "temperature": learned}], weights=[1, 0.5]
    )
    record = choice.record()
    assert record["weights"] == [1.0, 0.5]
    assert record["objectives"][1]["temperature"] == learned
    again = ccl.objective("mixture", **{k: v for k, v in record.items() if k != "use"})
    assert again == choice
    assert set(again.build().scalars()) == {"1/temperature"}


def test_what_is_undefined_names_the_objective_and_the_rows():
    (x, y), _ = random_batch()
    literal = WeaklySupCCLK(RBF(1e-9), 0.1, ridge=0.0)
    mixture = Mixture([InfoNCE(), literal])
    with pytest.raises(ValueError, match=r"WeaklySupCCLK is undefined for 7 of 7 anchors: \["):
        mixture(x, y, condition=Z * 0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Mixture([]), r"objectives must be one or more, not \[\]"),
        (lambda: Mixture([InfoNCE()], [1, 2]), r"one number for each of 0, not \[1, 2\]"),
        (lambda: Mixture(members(), [1, 2]), r"each of fair, class, not \[1, 2\]"),
        (lambda: Mixture({"type": InfoNCE()}), "a mixture cannot be called 'type'"),
        (lambda: Mixture({"a.b": InfoNCE()}), "a mixture cannot be called 'a.b'"),
        (lambda: Mixture([InfoNCE()], [-1]), "weight must be .* 0 or more, not -1"),
    ],
)
def test_what_does_not_fit_is_named(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_pairs_of_a_user_reach_every_objective():
    (x, y), ids = random_batch()
    alike = ids[:, None] == ids
    pairs = Pairs.from_masks(normalize(torch.stack([x, y]), dim=-1), alike, ~alike)
    expected = InfoNCE().loss(pairs) + SupCon().loss(pairs)
    torch.testing.assert_close(Mixture([InfoNCE(), SupCon()]).loss(pairs), expected)


def test_objectives_are_placed_by_their_path():
    inner = Mixture({"a": InfoNCE(), "b": SupCon()})
    outer = Mixture({"deep": inner, "flat": InfoNCE()})
    assert [part.objective.place for part in inner.parts.values()] == ["deep/a", "deep/b"]
    assert [part.objective.place for part in outer.parts.values()] == ["deep", "flat"]
    assert outer.place == ""


def test_numbers_that_change_are_named_by_their_path():
    schedule = {"schedule": "linear", "start": 0.5, "end": 0.1}
    inner = Mixture({"a": InfoNCE(schedule)}, {"a": schedule})
    outer = Mixture([inner, SupCon()])
    outer.progress(1, 3)
    assert {k: round(v.item(), 6) for k, v in outer.scalars().items()} == {
        "0/a/temperature": 0.3,
        "0/a/weight": 0.3,
    }
    learned = Mixture([InfoNCE({"learn": True, "start": 0.5})]).scalars()
    assert not learned["0/temperature"].requires_grad


def test_the_value_types_of_a_shared_condition_are_those_that_all_accept():
    mixture = Mixture([FairCCLK(RBF()), SupCon(), SupCon(on="label")])
    assert mixture.conditions == {"condition": ("categorical",), "label": ("categorical",)}


def test_what_objectives_disagree_on_is_quoted():
    class Continuous(InfoNCE):
        conditions = {"condition": ("continuous",)}  # noqa: RUF012  # a stand-in for a stranger's

    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        Mixture({"a": SupCon(), "b": Continuous(), "c": InfoNCE()})
    assert str(error.value) == (
        "objectives must accept one value type of the condition 'condition', not"
        " {'a': ('categorical',), 'b': ('continuous',)}: give each a condition of its own, on=..."
    )


class Stranger(torch.nn.Module):
    """An objective of another package: what every objective has, and nothing more."""

    conditions = {}  # noqa: RUF012  # as a stranger may write it
    embedding, min_views, within_view, distributed = "sphere", 2, False, "mean"

    def terms(self, pairs):
        values = 1 - pairs.own_sim(0, 1)[None]
        return values, torch.ones_like(values)

    def loss(self, pairs):
        return self.terms(pairs)[0].mean()


def test_an_objective_of_another_package_needs_no_more_than_the_protocol():
    (x, y), _ = random_batch()
    mixture = Mixture([Stranger(), InfoNCE()], [2, 1])
    pairs = in_batch(normalize(torch.stack([x, y]), dim=-1))
    expected = 2 * Stranger().loss(pairs) + InfoNCE().loss(pairs)
    torch.testing.assert_close(mixture(x, y), expected)
    torch.testing.assert_close(mixture.loss(pairs), expected)
    values, weights = mixture.terms(pairs)
    torch.testing.assert_close((values * weights).sum() / weights.sum(), expected)
    mixture.progress(0, 1)
    mixture.after_step()
    mixture.setup({}, Sizes(3, 5, 5, 10))
    assert not mixture.scalars()
    assert not mixture.statistics()


def test_objectives_check_the_conditions_that_they_read():
    checked, given = [], object()

    class Checking(FairCCLK):
        def check_read(self, name, condition):
            checked.append((name, condition))

    mixture = Mixture([InfoNCE(), Checking(RBF(), on="color")])
    for name in ("color", "age"):
        mixture.check_read(name, given)
    assert checked == [("color", given)]

"""Guides against sums over samples; `tests/support/slow_guides.py` has these."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from unittest import SkipTest

import pytest
import torch
from support import slow_guides as slow
from support.waiting import Refusing
from torch.nn.functional import normalize

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF, Linear
from ccl_plugins.objectives import (
    CMC,
    HSIC,
    Classification,
    ClInfoNCE,
    FairCCLK,
    Guide,
    Guided,
    InfoNCE,
    Lightly,
    Mixture,
    Prototypes,
    Regression,
    SupCon,
)
from ccl_plugins.pairs import Pairs, Samples, in_batch
from ccl_plugins.protocols import Sizes, Table
from ccl_plugins.testing import objectives as laws_of_objectives
from ccl_plugins.testing.objective_batches import RawBatch, on_each_rank, queue_pairs
from ccl_plugins.testing.subject import Subject, laws

N, D, F = 6, 4, 5
GENERATOR = torch.Generator().manual_seed(0)
ANCHORS = normalize(torch.randn(2, N, D, generator=GENERATOR, dtype=torch.float64), dim=-1)
FEATURES = torch.randn(2, N, F, generator=GENERATOR, dtype=torch.float64)
COLOR = torch.rand(N, 3, generator=GENERATOR, dtype=torch.float64)
BITS = torch.tensor([[1, 0], [0, 0], [1, 1], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)
IDS = torch.tensor([0, 1, 2, 0, 1, 2])
CONDITION = {"color": COLOR, "digit": IDS, "bits": BITS}
TABLES = {
    "color": Table(torch.rand(20, 3, generator=GENERATOR, dtype=torch.float64) * 3 + 1),
    "digit": Table(torch.arange(20) % 3),
    "bits": Table(torch.arange(40).reshape(20, 2) % 3 % 2),
}
SIZES = Sizes(samples=20, embedding=D, features=F, steps=10)


def guided(*guides, **options):
    objective = Guided(InfoNCE(0.2), [Guide(**each) for each in guides], **options)
    torch.manual_seed(0)
    objective.setup(TABLES, SIZES)
    return objective.double()


def pairs_of(anchors=ANCHORS, features=FEATURES, **more):
    return in_batch(anchors, Samples(CONDITION, features=features), **more)


def leaves():
    return ANCHORS.clone().requires_grad_(), FEATURES.clone().requires_grad_()


def head(objective, name):
    return objective.parts[name].objective


def gradients(value, *leaves):
    return torch.autograd.grad(
        value, leaves, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def assert_same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


SLOW = {
    "digit": lambda x, w, b: slow.cross_entropy(x, IDS, w, b),
    "bits": lambda x, w, b: slow.binary_cross_entropy(x, BITS, w, b),
    "color": lambda x, w, b: slow.squared_error(x, COLOR, w, b, TABLES["color"].values),
}
WAYS = {"digit": Classification, "bits": Classification, "color": Regression}


@pytest.mark.parametrize("at", ["features", "projection"])
@pytest.mark.parametrize("on", [*SLOW])
def test_a_guide_that_keeps_adds_its_weighted_loss(on, at):
    objective = guided({"on": on, "keep": True, "by": WAYS[on](), "weight": 0.3, "at": at})
    anchors, features = leaves()
    learned = head(objective, on)
    found = objective.loss(pairs_of(anchors, features))
    base = InfoNCE(0.2).loss(pairs_of(anchors, features))
    read = features if at == "features" else anchors
    expected = base + 0.3 * SLOW[on](read, learned.weight, learned.bias)
    assert_same(found, expected)
    every = (anchors, features, learned.weight, learned.bias)
    assert_same(gradients(found, *every), gradients(expected, *every))


@pytest.mark.parametrize("on", [*SLOW])
def test_reversal_teaches_the_head_and_turns_the_encoder_s_gradient_round(on):
    objective = guided(
        {"on": on, "keep": False, "by": WAYS[on](), "weight": 0.3, "suppress": "reversal"}
    )
    anchors, features = leaves()
    learned = head(objective, on)
    found = objective.loss(pairs_of(anchors, features))
    base = InfoNCE(0.2).loss(pairs_of(anchors, features))
    guide = SLOW[on](features, learned.weight, learned.bias)
    assert_same(found, base + 0.3 * guide)
    assert_same(gradients(found, anchors), gradients(base, anchors))
    assert_same(gradients(found, features)[0], -0.3 * gradients(guide, features)[0])
    layers = (learned.weight, learned.bias)
    assert_same(gradients(found, *layers), gradients(guide, *layers))


def test_a_uniform_target_is_the_encoder_s_and_the_head_learns_beside_it():
    objective = guided(
        {"on": "digit", "keep": False, "by": Classification(), "weight": 0.3, "suppress": "uniform"}
    )
    anchors, features = leaves()
    learned = head(objective, "digit")
    layers = (learned.weight, learned.bias)
    found = objective.loss(pairs_of(anchors, features))
    confused = slow.to_uniform(features, *layers)
    told = slow.cross_entropy(features, IDS, *layers)
    assert_same(found, InfoNCE(0.2).loss(pairs_of()) + 0.3 * confused)
    assert_same(gradients(found, features)[0], 0.3 * gradients(confused, features)[0])
    assert_same(gradients(found, *layers), gradients(told, *layers))
    both = guided(
        {
            "on": "bits",
            "keep": False,
            "by": Classification(),
            "suppress": "uniform",
            "at": "projection",
        }
    )
    logits = head(both, "bits").predict(ANCHORS, frozen=True)
    halves = -(logits.sigmoid().log() + (-logits).sigmoid().log()).mean() / 2
    assert_same(both.loss(pairs_of()), InfoNCE(0.2).loss(pairs_of()) + halves)


@pytest.mark.parametrize(("on", "width"), [("color", 3), ("digit", 3), ("bits", 2)])
def test_least_squares_turns_round_the_gradient_of_the_best_linear_head_of_the_batch(on, width):
    """Of a regression by default: a head that learns by steps is outrun by the encoder."""
    how = {} if on == "color" else {"suppress": "least_squares"}
    objective = guided({"on": on, "keep": False, "by": WAYS[on](ridge=0.05), "weight": 0.3, **how})
    table = TABLES["color"].values
    targets = {
        "color": (COLOR - table.mean(0)) / table.std(0, correction=0),
        "digit": torch.nn.functional.one_hot(IDS, 3).double(),
        "bits": BITS,
    }[on]
    anchors, features = leaves()
    found = objective.loss(pairs_of(anchors, features))
    weight, bias, center = best_head(features.detach(), targets, 0.05)
    errors = [
        sum(
            (sum((x[k] - center[k]) * weight[k, c] for k in range(F)) + bias[c] - row[c]) ** 2
            for c in range(width)
        )
        / width
        for view in features
        for x, row in zip(view, targets, strict=True)
    ]
    guide = sum(errors) / len(errors)
    assert_same(found, InfoNCE(0.2).loss(pairs_of()) + 0.3 * guide)
    assert_same(gradients(found, features)[0], -0.3 * gradients(guide, features)[0])
    learned = head(objective, on)
    layers = (learned.weight, learned.bias)  # it learns beside it, to be logged
    assert_same(gradients(found, *layers), gradients(SLOW[on](features, *layers), *layers))


def best_head(features, targets, ridge):
    """Coefficients, intercept and center that minimize the mean squared error and the ridge's penalty."""
    rows = features.reshape(-1, F)
    every = torch.cat([targets] * len(features))
    center = rows.mean(0)
    penalty = ridge * (rows - center).square().mean()
    # As a least-squares problem with rows for the penalty, which another solver takes.
    size = len(rows) ** 0.5
    more = penalty.sqrt() * torch.eye(F, dtype=rows.dtype)
    design = torch.cat([(rows - center) / size, more])
    wanted = torch.cat([(every - every.mean(0)) / size, torch.zeros(F, every.shape[1])])
    weight = torch.linalg.lstsq(design, wanted.double()).solution
    return weight, every.mean(0), center


def test_what_least_squares_gains_is_bounded_by_the_spread_of_the_values():
    objective = guided({"on": "color", "keep": False, "by": Regression()})
    table = TABLES["color"].values
    spread = ((COLOR - table.mean(0)) / table.std(0, correction=0)).var(0, correction=0).mean()
    base = InfoNCE(0.2).loss(pairs_of())
    for scale in (0.0, 1e-6, 1.0, 1e6):
        assert objective.loss(pairs_of(features=scale * FEATURES)) - base <= spread + 1e-9


def test_a_weight_of_zero_watches_without_a_trace():
    objective = guided({"on": "digit", "keep": False, "by": Classification(), "weight": 0})
    anchors, features = leaves()
    found = objective.loss(pairs_of(anchors, features))
    assert_same(found, InfoNCE(0.2).loss(pairs_of()))
    assert not gradients(found, features)[0].any()
    assert gradients(found, head(objective, "digit").weight)[0].any()


@pytest.mark.parametrize(("keep", "sign"), [(True, 1), (False, -1)])
def test_prototypes_are_moving_averages_of_the_steps_before(keep, sign):
    objective = guided({"on": "digit", "keep": keep, "by": Prototypes(momentum=0.7), "weight": 0.3})
    prototypes = [None, None, None]
    for step in range(3):
        anchors, features = leaves()
        with torch.no_grad():
            features += step
        pairs = pairs_of(anchors, features)
        objective.loss(pairs)
        found = objective.loss(pairs)  # a loss that is computed twice moves them no further
        base = InfoNCE(0.2).loss(pairs_of(anchors, features))
        if step:
            guide = slow.near_prototypes(features, IDS, prototypes, 0.1)
            assert_same(found, base + 0.3 * guide)
            assert_same(gradients(found, features)[0], sign * 0.3 * gradients(guide, features)[0])
        else:
            assert_same(found, base)
        objective.after_step()
        prototypes = slow.moved(prototypes, features.detach(), IDS, 0.7)
        assert_same(head(objective, "digit").prototypes, torch.stack(prototypes))


def test_a_class_without_prototype_is_no_candidate_and_does_not_count():
    objective = guided({"on": "digit", "keep": True, "by": Prototypes()})
    some = in_batch(
        ANCHORS[:, :2], Samples({"digit": IDS[:2]}, features=FEATURES[:, :2].requires_grad_())
    )
    objective.loss(some)
    objective.after_step()
    prototypes = slow.moved([None] * 3, FEATURES[:, :2].detach(), IDS[:2], 0.9)
    assert prototypes[2] is None
    expected = InfoNCE(0.2).loss(pairs_of()) + slow.near_prototypes(FEATURES, IDS, prototypes, 0.1)
    assert_same(objective.loss(pairs_of()).detach(), expected.detach())
    FEATURES.requires_grad_(False)


def test_a_uniform_target_spreads_over_the_classes_with_a_prototype_alone():
    objective = guided(
        {"on": "digit", "keep": False, "by": Prototypes(), "weight": 0.3, "suppress": "uniform"}
    )
    known = IDS < 2
    first = Samples({"digit": IDS[known]}, features=FEATURES[:, known].clone().requires_grad_())
    objective.loss(in_batch(ANCHORS[:, known], first))
    objective.after_step()
    prototypes = slow.moved([None] * 3, FEATURES[:, known], IDS[known], 0.9)
    features = FEATURES.clone().requires_grad_()
    found = objective.loss(pairs_of(features=features))
    expected = slow.between_prototypes(features, IDS, prototypes, 0.1)
    assert_same(found, InfoNCE(0.2).loss(pairs_of()) + 0.3 * expected)
    assert_same(gradients(found, features)[0], 0.3 * gradients(expected, features)[0])


def test_the_steps_between_two_updates_are_all_averaged():
    objective = guided({"on": "digit", "keep": True, "by": Prototypes(momentum=0.0)})
    first, second = FEATURES.clone().requires_grad_(), (1 - FEATURES).requires_grad_()
    for features in (first, second):
        objective.loss(pairs_of(features=features))
    with torch.no_grad():  # what is only measured moves nothing
        objective.loss(pairs_of(features=FEATURES * 100))
    objective.after_step()
    expected = slow.moved([None] * 3, torch.cat([first, second]).detach(), IDS, 0.0)
    assert_same(head(objective, "digit").prototypes, torch.stack(expected))


def test_a_sample_that_is_missing_moves_no_prototype():
    objective = guided({"on": "digit", "keep": True, "by": Prototypes(momentum=0.0)})
    missing = torch.zeros_like(IDS, dtype=torch.bool)
    missing[0] = True
    objective.loss(in_batch(ANCHORS, Samples({"digit": IDS}, features=FEATURES, missing=missing)))
    objective.after_step()
    expected = slow.moved([None] * 3, FEATURES[:, 1:], IDS[1:], 0.0)
    assert_same(head(objective, "digit").prototypes, torch.stack(expected))


def test_a_prototype_without_a_sample_in_a_step_stays():
    objective = guided({"on": "digit", "keep": True, "by": Prototypes(momentum=0.0)})
    objective.loss(pairs_of())
    objective.after_step()
    before = head(objective, "digit").prototypes.clone()
    some = Samples({"digit": torch.zeros_like(IDS)}, features=1 - FEATURES)
    objective.loss(in_batch(ANCHORS, some))
    objective.after_step()
    after = head(objective, "digit").prototypes
    assert not torch.equal(after[0], before[0])
    assert torch.equal(after[1:], before[1:])


def test_an_objective_that_hides_is_minimized_and_another_kept_by():
    by = FairCCLK(RBF(0.1), 0.5)
    objective = guided(
        {"on": "color", "keep": False, "by": by, "weight": 2.0},
        {"on": "digit", "keep": True, "by": ClInfoNCE(0.3), "weight": 0.1},
    )
    assert by.on == "condition"  # the user's own stays as it is
    anchors, _ = leaves()
    found = objective.loss(pairs_of(anchors))
    fair = FairCCLK(RBF(0.1), 0.5, on="color").loss(pairs_of(anchors))
    kept = ClInfoNCE(0.3, on="digit").loss(pairs_of(anchors))
    expected = InfoNCE(0.2).loss(pairs_of(anchors)) + 2 * fair + 0.1 * kept
    assert_same(found, expected)
    assert_same(gradients(found, anchors), gradients(expected, anchors))


def test_an_objective_may_be_reversed():
    objective = guided(
        {"on": "digit", "keep": False, "by": SupCon(0.3), "weight": 0.5, "suppress": "reversal"}
    )
    anchors, _ = leaves()
    found = objective.loss(pairs_of(anchors))
    base, guide = (
        InfoNCE(0.2).loss(pairs_of(anchors)),
        SupCon(0.3, on="digit").loss(pairs_of(anchors)),
    )
    assert_same(found, base + 0.5 * guide)
    assert_same(gradients(found, anchors)[0], gradients(base - 0.5 * guide, anchors)[0])
    forced = guided({"on": "digit", "keep": False, "by": SupCon(0.3), "suppress": "objective"})
    assert_same(forced.loss(pairs_of()), InfoNCE(0.2).loss(pairs_of()) + guide.detach())


def test_an_objective_may_compare_features():
    objective = guided({"on": "digit", "keep": True, "by": SupCon(0.3), "at": "features"})
    _, features = leaves()
    found = objective.loss(pairs_of(ANCHORS, features))
    units = in_batch(normalize(features, dim=-1), Samples(CONDITION))
    expected = InfoNCE(0.2).loss(pairs_of()) + SupCon(0.3, on="digit").loss(units)
    assert_same(found, expected)
    assert_same(gradients(found, features), gradients(expected, features))
    assert objective.reads_features


HEAD = {"on": "digit", "by": Classification()}


@pytest.mark.parametrize(
    ("guide", "balance", "stops_gradient", "adversarial"),
    [
        ({**HEAD, "keep": True}, None, False, False),
        ({**HEAD, "keep": True}, "gradient", True, False),
        ({**HEAD, "keep": False}, None, True, True),
        ({"on": "digit", "keep": True, "by": HSIC()}, None, True, False),
        ({"on": "digit", "keep": True, "by": SupCon()}, None, False, False),
        ({"on": "color", "keep": False, "by": FairCCLK(RBF())}, None, True, True),
    ],
)
def test_guides_declare_what_they_do_to_gradients(guide, balance, stops_gradient, adversarial):
    found = Guided(InfoNCE(), [guide], balance=balance)
    assert (found.stops_gradient, found.adversarial) == (stops_gradient, adversarial)
    assert found.compiles == (balance is None)


def test_a_queue_keeps_the_statistics_of_those_that_read_it():
    fair = {"keep": False, "by": FairCCLK(Linear())}
    guides = [Guide("color", **fair), Guide("bits", **fair, at="features")]
    objective = Guided(FairCCLK(Linear(), on="color"), [*guides, Guide("digit", False, HSIC())])
    assert [*objective.statistics()] == ["color/gram/base", "color/gram/color"]


def test_a_guide_of_features_reads_the_masks_of_the_batch_and_none_of_the_queue():
    objective = guided({"on": "digit", "keep": True, "by": SupCon(0.3), "at": "features"})
    alike = torch.arange(N)[:, None] // 2 == torch.arange(N) // 2
    unlike = ~alike & ~torch.eye(N, dtype=torch.bool).roll(1, 1)
    queued = torch.ones(N, 6, dtype=torch.bool)
    pairs = queue_pairs(objective, RawBatch(ANCHORS, CONDITION), 6, 0.0)
    pairs = replace(
        pairs,
        samples=replace(pairs.samples, features=FEATURES),
        positive=torch.cat([alike, ~queued], 1),
        negative=torch.cat([unlike, queued], 1),
    )
    guide = SupCon(0.3).loss(Pairs.from_masks(normalize(FEATURES, dim=-1), alike, unlike))
    assert_same(objective.loss(pairs), InfoNCE(0.2).loss(pairs) + guide)


def test_an_objective_is_reversed_without_features_too():
    objective = guided({"on": "digit", "keep": False, "by": SupCon(0.3), "suppress": "reversal"})
    anchors, _ = leaves()
    pairs = in_batch(anchors, Samples({"digit": IDS}))
    base, guide = InfoNCE(0.2).loss(pairs), SupCon(0.3, on="digit").loss(pairs)
    found = objective.loss(pairs)
    assert_same(found, base + guide)
    assert_same(gradients(found, anchors)[0], gradients(base - guide, anchors)[0])


@pytest.mark.parametrize("balance", [None, "gradient"])
def test_its_terms_have_the_loss_as_their_mean(balance):
    objective = guided(
        {"on": "color", "keep": False, "by": Regression(), "weight": 0.5},
        {"on": "digit", "keep": True, "by": SupCon(0.3), "weight": 2.0},
        balance=balance,
    )
    leaf = FEATURES.clone().requires_grad_()
    made = leaf * 1
    pairs = pairs_of(normalize(made[..., :D], dim=-1), made)
    values, weights = objective.terms(pairs)
    mean, loss = (values * weights).sum() / weights.sum(), objective.loss(pairs)
    assert_same(mean, loss)
    read = (leaf, *head(objective, "color").parameters())
    assert_same(gradients(mean, *read), gradients(loss, *read))


@pytest.mark.parametrize(("keep", "sign"), [(True, -1), (False, 1)])
def test_dependence_is_lowered_to_suppress_and_raised_to_keep(keep, sign):
    objective = guided({"on": "color", "keep": keep, "by": HSIC(), "weight": 7.0})
    _, features = leaves()
    found = objective.loss(pairs_of(ANCHORS, features))
    guide = sum(slow.hsic(view, COLOR, "unbiased") for view in features) / 2
    assert_same(found, InfoNCE(0.2).loss(pairs_of()) + 7 * guide)
    assert_same(gradients(found, features)[0], sign * 7 * gradients(guide, features)[0])


def test_balanced_guides_have_their_weight_times_the_base_s_gradient_at_the_features():
    ways = (
        {"on": "color", "keep": False, "by": Regression(), "weight": 0.5},
        {"on": "digit", "keep": True, "by": Classification(), "weight": 2.0, "at": "projection"},
    )
    project = torch.randn(F, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def losses_of(objective):
        flat = FEATURES.reshape(-1, F).clone().requires_grad_()
        features = flat * 1.0  # as a backbone makes them; a view of them goes to the objective
        anchors = normalize((features @ project).reshape(2, N, D), dim=-1)
        pairs = pairs_of(anchors, features.reshape(2, N, F).to(torch.float64))
        return flat, pairs, objective.loss(pairs)

    balanced, plain = guided(*ways, balance="gradient"), guided(*ways)
    flat, pairs, found = losses_of(balanced)
    base, color, digit = (part.objective.loss(pairs) for part in plain.parts.values())
    g_base, g_color, g_digit = (gradients(each, flat)[0] for each in (base, color, digit))
    factors = [0.5 * g_base.norm() / g_color.norm(), 2 * g_base.norm() / g_digit.norm()]
    # A reversed loss of its own has a reversed gradient already.
    assert_same(found, base + factors[0] * color + factors[1] * digit)
    assert_same(gradients(found, flat)[0], g_base + factors[0] * g_color + factors[1] * g_digit)
    scalars = balanced.scalars()
    torch.testing.assert_close(scalars["color/factor"], factors[0])
    torch.testing.assert_close(scalars["digit/factor"], factors[1])


class Rounding(ClInfoNCE):
    """A constant up to rounding errors, as unbiased HSIC of one class may be."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return 1e-17 * values, weights


def test_balance_does_not_amplify_the_rounding_errors_of_a_guide_that_is_constant():
    way = {"on": "digit", "keep": True, "by": Rounding(on="digit")}
    objective = guided(way, balance="gradient")
    anchors, _ = leaves()
    reached = anchors @ torch.ones(D, F).double()
    pairs = pairs_of(normalize(reached, dim=-1)[..., :D], reached)
    found, base = objective.loss(pairs), InfoNCE(0.2).loss(pairs)
    assert objective.factors.max() <= torch.finfo(torch.float64).eps ** -0.5
    assert_same(gradients(found, anchors)[0], gradients(base, anchors)[0])


def test_the_balance_of_a_base_that_features_do_not_reach_is_refused():
    objective = guided({"on": "digit", "keep": True, "by": Classification()}, balance="gradient")
    anchors, features = leaves()
    with pytest.raises(ValueError, match="the projections must be made of these features"):
        objective.loss(pairs_of(anchors, features))
    reached = anchors @ torch.ones(D, F).double()
    assert objective.loss(pairs_of(normalize(reached, dim=-1)[..., :D], reached)).isfinite()


def test_a_balanced_loss_says_that_it_does_not_compile():
    objective = guided({"on": "digit", "keep": True, "by": Classification()}, balance="gradient")
    assert not objective.compiles
    assert not Mixture([objective]).compiles
    features = FEATURES.clone().requires_grad_()
    torch.compiler.reset()
    compiled = torch.compile(objective.loss, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match='balance="gradient" takes gradients within the loss'):
        compiled(pairs_of(features[..., :D], features))


VARIANTS = {
    "heads": [
        {"on": "color", "keep": False, "by": {"use": "regression", "hidden": 8}},
        {"on": "digit", "keep": True, "by": "classification", "weight": 0.1},
    ],
    "uniform": [
        {"on": "digit", "keep": False, "by": "classification", "suppress": "uniform"},
        {
            "on": "color",
            "keep": True,
            "by": "regression",
            "at": "projection",
            "weight": {"schedule": "linear", "start": 0.0, "end": 1.0},
        },
    ],
    "prototypes": [{"on": "digit", "keep": False, "by": "prototypes"}],
    "least squares": [
        {"on": "color", "keep": False, "by": "regression"},
        {"on": "digit", "keep": False, "by": "classification", "suppress": "least_squares"},
    ],
    "dependence": [
        {"on": "color", "keep": False, "by": "hsic", "weight": 9.0},
        {"on": "digit", "keep": True, "by": {"use": "hsic", "estimator": "biased"}},
    ],
    "objectives": [
        {"on": "color", "keep": False, "by": {"use": "fair_cclk", "kernel": "rbf"}},
        {"on": "digit", "keep": True, "by": "cl_infonce", "at": "features"},
        {"on": "class", "keep": False, "by": "supcon", "suppress": "reversal"},
    ],
    "balanced": [
        {"on": "color", "keep": False, "by": "regression"},
        {"on": "digit", "keep": True, "by": "classification", "at": "projection"},
    ],
}


COMPILES = laws_of_objectives.check_compiles_without_graph_breaks
LAWS = [
    pytest.param(
        variant,
        law,
        marks=[pytest.mark.slow] * (law is COMPILES and variant != "least squares"),
        id=f"{variant}-{law.__name__}",
    )
    for variant in VARIANTS
    for law in laws(laws_of_objectives)
]


@pytest.mark.parametrize(("variant", "law"), LAWS)
def test_every_kind_of_guide_keeps_the_laws_of_objectives(variant, law):
    balance = "gradient" if variant == "balanced" else None
    choice = ccl.objective("guided", base="infonce", guides=VARIANTS[variant], balance=balance)
    try:
        law(Subject(choice.spec, chosen=choice))
    except SkipTest as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("variant", [*VARIANTS])
def test_a_step_waits_for_nothing(variant):
    balance = "gradient" if variant == "balanced" else None
    choice = ccl.objective("guided", base="infonce", guides=VARIANTS[variant], balance=balance)
    objective = choice.build()
    objective.setup({**TABLES, "class": TABLES["digit"]}, Sizes(20, D, D, 10))
    objective.double()
    for step in range(2):
        views = ANCHORS.clone().requires_grad_()
        condition = {**CONDITION, "class": IDS}
        with Refusing():
            objective.progress(step, 2)
            made = views * 1
            objective.loss(in_batch(made, Samples(condition, features=made))).backward()
            objective.after_step()


def test_two_processes_equal_one_with_prototypes_and_missing_values(two_processes):
    views = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = torch.rand(8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    whole = RawBatch(views, {"digit": torch.arange(8) % 3, "color": z})
    whole = whole.without_values(torch.tensor([0, 6]))
    expected = on_each_rank(after_a_step, whole)
    for found in two_processes(on_each_rank, after_a_step, whole):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def after_a_step():
    """With prototypes of a whole batch, which each process would make of its part of it alone."""
    ways = (
        {"on": "digit", "keep": False, "by": Prototypes()},
        {"on": "color", "keep": False, "by": Regression()},
    )
    objective = Guided(InfoNCE(0.2), [Guide(**each) for each in ways], balance="gradient")
    torch.manual_seed(0)
    objective.setup(TABLES, Sizes(20, 5, 5, 10))
    objective.double()
    x = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    z = {"digit": torch.arange(8) % 3, "color": COLOR[torch.arange(8) % N]}
    objective.loss(in_batch(x.requires_grad_(), Samples(z, features=x)))
    objective.after_step()
    return objective


def of_its_own(rank=None):
    """Loss, gradient, prototypes and logged numbers of a step whose pairs were not gathered."""
    from lightly.utils import dist

    objective = guided(
        {"on": "digit", "keep": True, "by": SupCon(0.3), "at": "features"},
        {"on": "digit", "keep": True, "by": Prototypes()},
        {"on": "color", "keep": False, "by": Regression()},
        {"on": "bits", "keep": False, "by": HSIC()},
        balance="gradient",
    )
    leaf = (FEATURES + (dist.rank() if rank is None else rank) * FEATURES.square()).requires_grad_()
    made = leaf * 1
    loss = objective.loss(pairs_of(normalize(made[..., :D], dim=-1), made))
    gradient = torch.autograd.grad(loss, leaf)
    objective.after_step()
    scalars = {k: v for k, v in objective.scalars().items() if v.isfinite()}
    return loss.detach(), gradient, head(objective, "digit/Prototypes").prototypes, scalars


def test_without_gathering_guides_read_the_samples_of_their_process(two_processes):
    for rank, found in enumerate(two_processes(of_its_own)):
        torch.testing.assert_close(found, of_its_own(rank), rtol=1e-9, atol=1e-12)


def test_prototypes_of_two_processes_are_those_of_one(two_processes):
    views = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (one,) = [prototypes_after(views)]
    for found in two_processes(prototypes_after, views):
        torch.testing.assert_close(found, one, rtol=1e-9, atol=1e-12)


def prototypes_after(views):
    """Prototypes and logged numbers after one step, in which each process has its part of a batch."""
    from lightly.utils import dist

    objective = Guided(
        InfoNCE(0.2),
        [Guide("digit", True, Prototypes()), Guide("color", False, Regression())],
    )
    torch.manual_seed(0)
    objective.setup(TABLES, Sizes(20, 5, 5, 10))
    objective.double()
    n = 8 // dist.world_size()
    rows = slice(dist.rank() * n, (dist.rank() + 1) * n)
    part = views[:, rows].clone().requires_grad_()
    z = {"digit": (torch.arange(8) % 3)[rows], "color": COLOR[torch.arange(8) % N][rows]}
    objective.loss(
        in_batch(part, Samples(z, features=part), gather_distributed=dist.world_size() > 1)
    )
    objective.after_step()
    scalars = {k: v for k, v in objective.scalars().items() if v.isfinite()}
    return head(objective, "digit").prototypes, scalars


def test_samples_without_a_value_leave_the_guide_on_it_and_no_other():
    ways = (
        {"on": "color", "keep": False, "by": Regression(), "suppress": "reversal"},
        {"on": "digit", "keep": True, "by": Classification()},
    )
    objective = guided(*ways)
    kept = [1, 2, 4, 5]
    z = COLOR.clone()
    z[[0, 3]] = torch.nan
    features = FEATURES.clone().requires_grad_()
    pairs = in_batch(
        ANCHORS, Samples({**CONDITION, "color": z}, features=features, ignored=("color",))
    )
    found = objective.loss(pairs)
    learned = head(objective, "color")
    color = slow.squared_error(
        features[:, kept], COLOR[kept], learned.weight, learned.bias, TABLES["color"].values
    )
    digit = slow.cross_entropy(
        features, IDS, head(objective, "digit").weight, head(objective, "digit").bias
    )
    assert_same(found, InfoNCE(0.2).loss(pairs_of()) + color + digit)
    layers = (learned.weight, learned.bias)
    assert_same(gradients(found, *layers), gradients(color, *layers))
    assert_same(gradients(found, features)[0], gradients(digit - color, features)[0])
    torch.testing.assert_close(objective.scalars()["color/loss"], color)


@pytest.mark.parametrize("base", [InfoNCE(), Lightly("NTXentLoss")], ids=["sphere", "raw"])
def test_what_takes_any_vectors_takes_those_that_the_base_needs(base):
    ways = [
        Guide("digit", True, Classification()),
        Guide("color", False, HSIC(), at="projection"),
        Guide("z", True, SupCon(), at="features"),
        Guide("z", True, ClInfoNCE()),
    ]
    found = Guided(base, ways)
    assert [part.objective.embedding for part in found.parts.values()] == [
        *[base.embedding] * 4,
        "sphere",
    ]


def test_a_queue_is_for_the_base_and_for_objectives_at_the_projection():
    heads = guided({"on": "digit", "keep": True, "by": Classification()})
    assert heads.reads_queue
    batch = RawBatch(ANCHORS, CONDITION)
    pairs = queue_pairs(heads, batch, 3, 0.0)
    learned = head(heads, "digit")
    with pytest.raises(
        ValueError, match="Classification of 'digit' reads features of width 5, not 4"
    ):
        heads.loss(pairs)
    objective = guided(
        {"on": "digit", "keep": True, "by": SupCon(0.3)},
        {"on": "color", "keep": False, "by": HSIC(), "at": "projection"},
    )
    expected = InfoNCE(0.2).loss(pairs) + SupCon(0.3, on="digit").loss(pairs)
    expected = expected + HSIC(on="color").loss(pairs)
    assert_same(objective.loss(pairs), expected)
    assert learned.weight.shape == (3, F)


def test_all_views_are_guided_and_of_partners_the_first_alone():
    anchors, features = (torch.cat([x, x.flip(0)[:1] + 0.1]) for x in (ANCHORS, FEATURES))
    objective = guided({"on": "digit", "keep": True, "by": Classification()})
    learned = head(objective, "digit")
    pairs = pairs_of(normalize(anchors, dim=-1), features)
    base = InfoNCE(0.2).loss(pairs)
    expected = slow.cross_entropy(features, IDS, learned.weight, learned.bias)
    assert_same(objective.loss(pairs), base + expected)
    partners = replace(pairs, samples=replace(pairs.samples, partner=torch.arange(N).flip(0)))
    expected = slow.cross_entropy(features[:1], IDS, learned.weight, learned.bias)
    assert_same(objective.loss(partners), base + expected)


def test_a_call_brings_features_and_conditions_by_name():
    ways = [
        {"on": "color", "keep": False, "by": Regression()},
        {"on": "digit", "keep": True, "by": Classification()},
    ]
    objective = guided(*ways)
    x, y = torch.randn(2, N, D, dtype=torch.float64)
    condition = {"color": COLOR, "digit": IDS}
    found = objective(x, y, condition=condition, features=tuple(FEATURES))
    anchors = normalize(torch.stack([x, y]), dim=-1)
    assert_same(found, objective.loss(pairs_of(anchors)))
    with pytest.raises(TypeError, match=r"Guided reads backbone features: call it with features="):
        objective(x, y, condition=condition)
    with pytest.raises(ValueError, match="digit holds the class id 3, and the head has 3 cl"):
        objective(x, y, condition={"color": COLOR, "digit": IDS + 1}, features=tuple(FEATURES))
    plain = Guided(InfoNCE(), ways)
    with pytest.raises(
        ValueError, match=r"Regression of 'color' has no head yet: call setup\(tables"
    ):
        plain(x, y, condition=condition, features=tuple(FEATURES))


def test_loss_and_quality_are_logged_of_the_last_batch():
    objective = guided(
        {"on": "color", "keep": False, "by": Regression(), "weight": 0.5},
        {"on": "digit", "keep": True, "by": Classification()},
    )
    features = FEATURES.clone().requires_grad_()
    objective.loss(pairs_of(features=features))
    found = objective.scalars()
    assert set(found) == {
        "base/loss",
        "color/loss",
        "color/r2",
        "digit/loss",
        "digit/accuracy",
    }
    predicted = head(objective, "digit").predict(FEATURES, frozen=True)
    right = (predicted.argmax(-1) == IDS).double().mean()
    torch.testing.assert_close(found["digit/accuracy"], right)
    table = TABLES["color"].values
    z = (COLOR - table.mean(0)) / table.std(0, correction=0)
    error = (head(objective, "color").predict(FEATURES, frozen=True) - z).square().mean()
    torch.testing.assert_close(found["color/loss"], error)
    torch.testing.assert_close(found["color/r2"], 1 - error / z.square().mean())
    torch.testing.assert_close(found["base/loss"], InfoNCE(0.2).loss(pairs_of()))
    with torch.no_grad():  # what monitors compute is not logged
        objective.loss(pairs_of(features=features * 5))
    torch.testing.assert_close(objective.scalars(), found)


def test_saved_heads_prototypes_and_statistics_load_before_setup():
    ways = (
        {"on": "color", "keep": True, "by": Regression(hidden=3)},
        {"on": "digit", "keep": False, "by": Prototypes()},
    )
    trained = guided(*ways)
    trained.loss(pairs_of(features=FEATURES.clone().requires_grad_()))
    trained.after_step()
    loaded = Guided(InfoNCE(0.2), [Guide(**each) for each in ways])
    loaded.load_state_dict(trained.state_dict())
    loaded.setup(TABLES, SIZES)
    loaded.double()
    assert_same(loaded.loss(pairs_of()), trained.loss(pairs_of()))


TOML = """
[objective]
use = "guided"
base = {use = "infonce", temperature = 0.1}
guides = [{on = "color", keep = false, by = "regression", weight = 1.0}, {on = "digit", keep = true, by = "classification", weight = 0.1}]
"""  # noqa: E501


def test_guides_are_read_from_toml_and_from_python_and_recorded_whole():
    table = tomllib.loads(TOML)["objective"]
    params = {key: value for key, value in table.items() if key != "use"}
    choice = ccl.objective("guided", **params)
    same = ccl.objective(
        "guided",
        base=ccl.objective("infonce", temperature=0.1),
        guides=[
            {"on": "color", "keep": False, "by": ccl.objective("regression")},
            {"on": "digit", "keep": True, "by": "classification", "weight": 0.1},
        ],
    )
    assert choice == same
    record = choice.record()
    assert record["guides"][1] == {
        "on": "digit",
        "keep": True,
        "by": {
            "use": "objective:ccl-plugins/classification",
            "hidden": None,
            "ridge": None,
            "classes": None,
            "on": "condition",
        },
        "weight": 0.1,
        "at": None,
        "suppress": None,
    }
    again = ccl.objective("guided", **{k: v for k, v in record.items() if k != "use"})
    assert again == choice
    assert [*again.build().parts] == ["base", "color", "digit"]


def test_an_objective_in_a_guide_is_chosen_by_name_or_given_built():
    fair = {"use": "fair_cclk", "kernel": {"use": "rbf", "scale": 0.1}}
    for by in (fair, FairCCLK(RBF(0.1))):
        choice = ccl.objective(
            "guided", base="infonce", guides=[{"on": "color", "keep": False, "by": by}]
        )
        objective = choice.build()
        assert objective.parts["color"].objective.on == "color"
        assert objective.parts["color"].objective.kernel.scale == 0.1
    twice = ccl.objective(
        "guided",
        base="infonce",
        guides=[{"on": on, "keep": False, "by": fair} for on in ("color", "shade")],
    )
    assert [*twice.build(cache={}).conditions] == ["color", "shade"]


MISTAKES = {
    "a misspelled key": ({"wieght": 1.0}, "has no parameter 'wieght'. Did you mean 'weight'"),
    "another type": ({"keep": "no"}, "guides\\[0\\]: a guide: keep must be bool, not 'no'"),
    "another word": (
        {"by": "regresion"},
        "guides\\[0\\].by: no objective 'regresion'.*'regression'",
    ),
    "another place": ({"at": "backbone"}, "at must be .*'features', 'projection'"),
}


@pytest.mark.parametrize(("changed", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_guide_is_named_with_its_place_when_it_is_chosen(changed, words):
    guide = {"on": "digit", "keep": False, "by": "classification", **changed}
    with pytest.raises(ccl.RegistryError, match=words):
        ccl.objective("guided", base="infonce", guides=[guide])
    with pytest.raises(ccl.RegistryError, match=r"guides\[0\]: a guide needs 'keep', 'by'"):
        ccl.objective("guided", base="infonce", guides=[{"on": "digit"}])


def test_a_guide_that_says_in_words_whether_it_keeps_is_refused_when_it_is_built():
    with pytest.raises(TypeError, match=r"guides\[0\]: keep must be true or false, not 'no'"):
        Guided(InfoNCE(), [Guide("digit", "no", Classification())])


KEEP, HIDE = {"on": "z", "keep": True}, {"on": "z", "keep": False}
REFUSED = {
    "no guides": ([], "give one or more guides"),
    "no table": (
        ["color"],
        "guides\\[0\\] must be a table, such as {on = ..., keep = ..., by = ...}, not 'c",
    ),
    "unknown key": (
        [{**KEEP, "bye": 1}],
        "guides\\[0\\] takes on, keep and by, and optionally weight, at .* unexpected .* 'bye'",
    ),
    "missing key": ([{"on": "z"}], "guides\\[0\\] takes .* missing .* 'keep' and 'by'"),
    "a name": (
        [{**KEEP, "by": "regression"}],
        "by must be an objective, such as Regression\\(\\), not 'regression'; names are for files",
    ),
    "negative weight": (
        [{**KEEP, "by": HSIC(), "weight": -1}],
        "weight must be .* 0 or more, not -1",
    ),
    "negative end": (
        [{**KEEP, "by": HSIC(), "weight": {"schedule": "linear", "start": 1, "end": -1}}],
        "weight.end must be .* 0 or more, not -1",
    ),
    "learned weight": (
        [{**KEEP, "by": HSIC(), "weight": {"learn": True, "start": 1}}],
        "guides\\[0\\]: weight cannot be learned: give a number or a schedule",
    ),
    "twice": ([{**KEEP, "by": HSIC()}] * 2, "two guides on 'z' by HSIC"),
    "contrary": (
        [{**KEEP, "by": HSIC()}, {**HIDE, "by": Regression()}],
        "one guide keeps 'z' and another suppresses it",
    ),
    "kept and suppressed": (
        [{**KEEP, "by": Classification(), "suppress": "uniform"}],
        "guide on 'z' by Classification keeps the condition: suppress = 'uniform' is for keep = false",
    ),
    "uniform regression": (
        [{**HIDE, "by": Regression(), "suppress": "uniform"}],
        "guide on 'z' by Regression takes suppress = 'least_squares' or 'reversal', not 'uniform'",
    ),
    "a head as objective": (
        [{**HIDE, "by": Prototypes(), "suppress": "objective"}],
        "by Prototypes takes suppress = 'reversal' or 'uniform', not 'objective'",
    ),
    "least squares of two layers": (
        [{**HIDE, "by": Regression(hidden=3), "suppress": "least_squares"}],
        "guide on 'z' by Regression takes suppress = 'reversal', not 'least_squares'",
    ),
    "ridge of a reversal": (
        [{**HIDE, "by": Classification(ridge=0.1)}],
        "has no ridge without suppress = 'least_squares'",
    ),
    "hiding to keep": (
        [{**KEEP, "by": FairCCLK(RBF())}],
        "guide on 'z' by FairCCLK would hide the condition: FairCCLK is for keep = false",
    ),
    "alike, one of them by default": (
        [{**KEEP, "by": Regression()}, {**KEEP, "by": Regression(), "at": "features"}],
        "two guides on 'z' by Regression",
    ),
    "alike at the projection, one of them by default": (
        [{**KEEP, "by": SupCon()}, {**KEEP, "by": SupCon(), "at": "projection"}],
        "two guides on 'z' by SupCon",
    ),
    "contrary, one of them by default": (
        [{**KEEP, "by": Regression()}, {**HIDE, "by": Regression(), "at": "features"}],
        "one guide keeps 'z' and another suppresses it",
    ),
    "hiding reversed": (
        [{**HIDE, "by": FairCCLK(RBF()), "suppress": "reversal"}],
        "hides the condition when it is minimized: leave suppress out",
    ),
    "attracting to hide": (
        [{**HIDE, "by": SupCon()}],
        "SupCon does not declare that it hides the condition: take suppress = 'reversal'",
    ),
    "attracting to uniform": (
        [{**HIDE, "by": SupCon(), "suppress": "uniform"}],
        "SupCon does not declare that it hides the condition",
    ),
    "no condition": ([{**KEEP, "by": InfoNCE()}], "needs an objective that reads one condition"),
    "several": (
        [{**KEEP, "by": Mixture([SupCon()])}],
        "needs an objective that reads one condition",
    ),
    "another on": ([{**KEEP, "by": SupCon(on="y")}], "reads 'y': leave its on out"),
    "a head's option": ([{**KEEP, "by": Regression(), "hidden": 3}], "unexpected .* 'hidden'"),
}


@pytest.mark.parametrize(("guides", "words"), REFUSED.values(), ids=REFUSED)
def test_combinations_without_a_meaning_are_refused_in_one_line(guides, words):
    with pytest.raises((ValueError, TypeError), match=words) as error:
        Guided(InfoNCE(), guides)
    assert "\n" not in str(error.value)


def test_two_ways_of_one_condition_have_names_of_their_own():
    objective = Guided(
        InfoNCE(),
        [Guide("base", False, HSIC()), Guide("z", True, HSIC()), Guide("z", True, SupCon())],
    )
    assert [*objective.parts] == ["base", "base/HSIC", "z/HSIC", "z/SupCon"]
    split = Guided(
        InfoNCE(),
        [Guide("z", True, HSIC(), at="features"), Guide("z", False, HSIC(), at="projection")],
    )
    assert [*split.parts] == ["base", "z/HSIC", "z/HSIC/projection"]
    assert [*Guided(InfoNCE(), [Guide("a.b", True, SupCon())]).parts] == ["base", "a_b"]
    assert [*Guided(InfoNCE(), [Guide("type", True, SupCon())]).parts] == ["base", "type/SupCon"]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({}, "Classification of 'digit' needs a table of that condition"),
        ({"digit": Table(torch.arange(9))}, "has classes=5, and class ids up to 8"),
    ],
)
def test_a_head_without_a_table_that_fits_is_refused(tables, words):
    with pytest.raises(ValueError, match=words):
        Guided(InfoNCE(), [Guide("digit", True, Classification(classes=5))]).setup(tables, SIZES)


def test_cmc_and_other_bases_are_guided_too():
    objective = Guided(CMC(0.2), [Guide("digit", True, SupCon(0.3))])
    expected = CMC(0.2).loss(pairs_of()) + SupCon(0.3, on="digit").loss(pairs_of())
    assert_same(objective.loss(pairs_of()), expected)
    nested = Guided(Mixture([CMC(0.2)]), [Guide("digit", True, SupCon(0.3))])
    assert_same(nested.loss(pairs_of()), expected)
    assert nested.parts["digit"].objective.place == "digit"

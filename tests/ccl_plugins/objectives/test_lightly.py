"""lightly's losses by name: on every pair of views, on two ranks, beside objectives on the sphere."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import replace

import lightly.loss
import pytest
import torch
from torch.nn.functional import cosine_similarity, normalize

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import FairCCLK, InfoNCE, Lightly, Mixture
from ccl_plugins.objectives.lightly import TAKES, UNUSABLE
from ccl_plugins.pairs import Pairs, Samples, in_batch, with_keys
from ccl_plugins.testing.objective_batches import RawBatch, on_each_rank, queue_pairs

OPTIONS = {
    "DirectCLRLoss": {"loss_dim": 4},
    "LeJEPALoss": {"sigreg_num_vectors": 32},
    "SIGReg": {"num_vectors": 32},
    "VISRegLoss": {"num_slices": 32},
}
DRAWN = ("LeJEPALoss", "SIGReg", "VISRegLoss")
"""They draw directions, which are others in another precision."""
NOT_WHOLE = ("DCLLoss", "DCLWLoss")
"""They index with a mask of bools, which has no size while a graph is traced."""
pytestmark = pytest.mark.filterwarnings("ignore:To copy construct from a tensor")  # DCLWLoss
every_loss = pytest.mark.parametrize("name", TAKES)


def views_of(count=3, n=8, d=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randn(1, n, d, generator=generator, dtype=torch.float64)
    return shared + torch.randn(count, n, d, generator=generator, dtype=torch.float64)


def build(name):
    """The objective, with the same random directions wherever it is built."""
    objective = Lightly(name, OPTIONS.get(name)).double()
    torch.manual_seed(0)
    return objective


def directly(name, views, keys=None):
    """lightly's own calls, in loops; views of a batch are their own keys."""
    criterion = getattr(lightly.loss, name)(**OPTIONS.get(name, {})).double()
    torch.manual_seed(0)
    other = views if keys is None else keys
    count = range(len(views))
    takes = TAKES[name]
    if takes == "two views":
        found = [criterion(views[i], other[j]) for i in count for j in count if i != j]
    elif takes == "one view":
        found = [criterion(view) for view in views]
    elif takes == "all views":
        found = [criterion([*views])]
    elif takes == "anchors and keys":
        found = [criterion(torch.stack([*views], 1), torch.stack([*other], 1))]
    else:
        found = [criterion(global_proj=views[:2], local_proj=views[2:])]
    return sum(found) / len(found)


def value_and_gradient(loss, views):
    views = views.clone().requires_grad_()
    value = loss(views)
    return value.detach(), torch.autograd.grad(value, views)[0]


exact = functools.partial(torch.testing.assert_close, rtol=1e-9, atol=1e-11)


@every_loss
def test_is_lightlys_loss_of_every_two_views_or_of_all(name):
    expected = value_and_gradient(lambda views: directly(name, views), views_of())
    exact(value_and_gradient(lambda views: build(name)(*views), views_of()), expected)
    if name in DRAWN:
        return
    low = build(name).float()
    found = value_and_gradient(lambda views: low(*views), views_of().float())
    for value, right in zip(found, expected, strict=True):
        torch.testing.assert_close(value.double(), right, rtol=2e-5, atol=2e-5)


@every_loss
def test_keys_of_a_momentum_encoder_are_compared_in_both_directions(name):
    keys = views_of(seed=1)
    found = value_and_gradient(
        lambda views: build(name).loss(with_keys(views, keys, first_key_view=0)), views_of()
    )
    exact(found, value_and_gradient(lambda views: directly(name, views, keys), views_of()))


@every_loss
def test_two_ranks_equal_one_process(name, two_processes):
    whole = RawBatch(views_of())
    expected = on_each_rank(functools.partial(build, name), whole)
    for found in two_processes(on_each_rank, functools.partial(build, name), whole):
        exact(found, expected)


@every_loss
def test_under_autocast_half_precision_is_computed_in_float32(name):
    views = views_of().bfloat16()
    objective = build(name).float()
    expected = objective(*views.float())
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        found = objective(*views)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "NTXentLoss")) for name in TAKES],
)
def test_compiles_to_one_graph_unless_it_indexes_with_bools(name):
    objective, views = build(name), views_of()
    expected = objective(*views)
    torch.compiler.reset()
    whole = name not in NOT_WHOLE
    compiled = torch.compile(objective, fullgraph=whole, backend="eager")
    torch.manual_seed(0)
    torch.testing.assert_close(compiled(*views), expected)
    if not whole:
        torch.compiler.reset()
        with pytest.raises(Exception, match="data-dependent"):
            torch.compile(objective, fullgraph=True, backend="eager")(*views)


@every_loss
@pytest.mark.parametrize("rows", ["identical", "zero", "opposite", "two"])
def test_degenerate_batches_are_finite_or_refused(name, rows):
    views = views_of().float()
    if rows == "identical":
        views = views[:1, :1].expand_as(views).clone()
    elif rows == "opposite":
        views[1] = -views[0]
    views = views * 0 if rows == "zero" else views[:, :2] if rows == "two" else views
    views.requires_grad_()
    try:
        loss = build(name).float()(*views)
    except ValueError as error:
        assert "is undefined for" in str(error)  # noqa: PT017  # an error is one of two good ends
        return
    assert loss.isfinite()
    (gradient,) = torch.autograd.grad(loss, views)
    assert gradient.isfinite().all()


@every_loss
def test_a_loss_changes_no_state_and_reads_no_queue(name):
    objective = build(name)
    before = {key: value.clone() for key, value in objective.state_dict().items()}
    pairs = queue_pairs(objective, RawBatch(views_of()), 6, 0.0)
    torch.manual_seed(0)
    first = objective.loss(pairs)
    torch.manual_seed(0)
    exact(objective.loss(replace(pairs, queue=replace(pairs.queue, keys=-pairs.queue.keys))), first)
    exact(dict(objective.state_dict()), before)
    assert not objective.reads_queue


def test_anchors_of_one_view_and_a_key_of_the_other_are_two_views():
    views, keys = views_of(1), views_of(1, seed=1)
    pairs = with_keys(views, keys, first_key_view=1)
    for name in ("VICRegLoss", "FroSSLLoss", "MMCRLoss"):
        both = [*views, *keys]
        criterion = getattr(lightly.loss, name)().double()
        given = {"VICRegLoss": both, "FroSSLLoss": [both]}.get(name, [v[:, None] for v in both])
        exact(build(name).loss(pairs), criterion(*given))


@pytest.mark.parametrize("name", ["VICRegLoss", "BarlowTwinsLoss", "NegativeCosineSimilarity"])
def test_a_conditional_term_is_added_to_it_by_a_mixture(name):
    x, y = views_of(2)
    color = torch.rand(8, 3, dtype=torch.float64)
    both = Mixture([Lightly(name), FairCCLK(RBF(), on="color")], [1, 0.5])
    assert both.embedding == "raw"
    expected = Lightly(name)(x, y) + 0.5 * FairCCLK(RBF())(x, y, condition=color)
    exact(both(x, y, condition={"color": color}), expected)
    pairs = in_batch(torch.stack([x, y]), Samples({"color": color}))
    exact(both.loss(pairs), expected)
    values, weights = both.terms(pairs)
    exact((values * weights).sum() / weights.sum(), expected)


def with_infonce():
    return Mixture([Lightly("VICRegLoss"), InfoNCE(0.2)], [1, 0.5])


def test_a_mixture_of_both_kinds_reads_a_queue_on_the_sphere_and_two_ranks_equal_one(two_processes):
    batch = RawBatch(views_of(2))
    pairs = queue_pairs(Lightly("VICRegLoss"), batch, 6, 0.0)
    sphere = pairs.normalized()
    exact(sphere.queue.keys.norm(dim=-1), torch.ones(6, dtype=torch.float64))
    expected = Lightly("VICRegLoss").loss(pairs) + 0.5 * InfoNCE(0.2).loss(sphere)
    exact(with_infonce().loss(pairs), expected)
    whole = on_each_rank(with_infonce, batch)
    for found in two_processes(on_each_rank, with_infonce, batch):
        exact(found, whole)


def test_every_loss_that_lightly_exports_can_be_used_or_is_refused_by_name():
    exported = {name for name, found in vars(lightly.loss).items() if inspect.isclass(found)}
    assert exported <= {*TAKES, *UNUSABLE}
    assert {*TAKES} <= exported
    assert not {*TAKES} & {*UNUSABLE}


NAMED = {
    ("local_proj", "global_proj"): ("global and local views", 3),
    ("online", "momentum"): ("anchors and keys", 2),
    ("z_views",): ("all views", 2),
}
"""By the names of a loss's arguments, what it takes and of how many views at least."""


@pytest.mark.parametrize("name", TAKES)
def test_a_loss_takes_the_views_that_lightly_s_own_takes(name):
    objective = Lightly(name, options=OPTIONS.get(name))
    takes = tuple(inspect.signature(objective.criterion.forward).parameters)
    usual = ("one view", 1) if len(takes) == 1 else ("two views", 2)
    assert (objective.takes, objective.min_views) == NAMED.get(takes, usual)


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_loss_that_cannot_be_used_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match=f"lightly's {name} cannot be used on projections: ") as e:
        Lightly(name)
    reason = str(e.value).partition(" projections: ")[2]
    assert re.fullmatch(r"(it|each|lightly) .*\w", reason)
    assert {*re.findall(r"[A-Z]\w*Loss", reason)} <= {*TAKES}
    assert {*re.findall(r"objective (\w+)", reason)} <= {*dir(ccl.objective)}


@pytest.mark.parametrize(
    ("loss", "options", "error", "message"),
    [
        ("VICRegloss", {}, ValueError, "no loss 'VICRegloss'. Did you mean 'VICRegLoss'?"),
        ("Triplet", {}, ValueError, "no loss 'Triplet'. There are: BarlowTwinsLoss, "),
        ("VICRegLoss", {"lambda": 1.0}, TypeError, "'lambda'. Did you mean 'lambda_param'?"),
        ("NTXentLoss", {"tau": 1.0}, TypeError, "no option 'tau'. There are: temperature, "),
        ("NTXentLoss", {"temperature": 0.0}, ValueError, "temperature must be .*above 0, not 0.0"),
        (
            "VICRegLoss",
            {"nu_param": float("inf")},
            ValueError,
            "nu_param must be a finite number, not inf",
        ),
        (
            "NTXentLoss",
            {"temperature": {"start": 1}},
            TypeError,
            "must be a number, because lightly",
        ),
        ("VICRegLoss", {"nu_param": "1"}, TypeError, "nu_param must be a number, not '1'"),
        ("NTXentLoss", {"temperature": True}, TypeError, "temperature must be a number, not True"),
        (
            lightly.loss.VICRegLoss,
            {},
            TypeError,
            "must be the name of a class in lightly.loss, such as",
        ),
        ("NTXentLoss", {"memory_bank_size": (64, 8)}, ValueError, "moco_v2 with .* infonce"),
        ("NTXentLoss", {"gather_distributed": True}, TypeError, "argument of the objective"),
    ],
)
def test_what_it_cannot_be_built_with_is_named(loss, options, error, message):
    with pytest.raises(error, match=message):
        Lightly(loss, options)


def test_a_memory_bank_of_size_0_is_none():
    assert Lightly("NTXentLoss", {"memory_bank_size": 0}).options == {"memory_bank_size": 0}


def test_masks_draws_and_single_samples_are_refused():
    unit, objective = normalize(views_of(2), dim=-1), Lightly("VICRegLoss")
    with pytest.raises(ValueError, match="VICRegLoss reads no masks"):
        objective.loss(Pairs.from_masks(unit, torch.eye(8).bool()))
    with pytest.raises(ValueError, match="cannot take explicit draws"):
        objective.loss(replace(in_batch(unit), draws=torch.zeros(8, 2).long()))
    with pytest.raises(ValueError, match="a batch needs at least 2"):
        objective.loss(in_batch(unit[:, :1]))
    uneven = with_keys(views_of(1), views_of(2), first_key_view=1)
    with pytest.raises(ValueError, match="as many keys as anchors, not 2 and 1"):
        Lightly("MMCRLoss").loss(uneven)
    with pytest.raises(ValueError, match="needs at least 3 views, not 2"):
        Lightly("LeJEPALoss")(*unit)


def test_a_condition_given_to_it_is_refused():
    with pytest.raises(TypeError, match="Lightly reads no condition"):
        Lightly("VICRegLoss")(*views_of(2), condition=torch.arange(8))


def test_a_weight_function_of_dcl_is_called_in_both_directions():
    def weight(x, y):
        return 1 + (x - 2 * y).square().sum(1)

    views, options = views_of(2), {"weight_fn": weight}
    criterion = lightly.loss.DCLLoss(weight_fn=weight)
    expected = (criterion(*views) + criterion(*views.flip(0))) / 2
    exact(Lightly("DCLLoss", options)(*views), expected)


def test_it_is_chosen_by_name_in_a_table():
    found = ccl.create("objective", "lightly", loss="VICRegLoss", options={"nu_param": 2.0})
    assert (found.criterion.nu_param, found.embedding, found.distributed) == (
        2.0,
        "raw",
        "replicated",
    )
    x, y = views_of(2)
    assert cosine_similarity(x, y).mean() == pytest.approx(
        -float(ccl.objective("lightly", loss="NegativeCosineSimilarity").build()(x, y))
    )

"""What the base class does for an objective that has more than terms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from support.sharded import call_unevenly, mean_of_calls, momentum_pairs
from torch import nn

from ccl_plugins.kernels import Linear
from ccl_plugins.methods import QueuedLoss
from ccl_plugins.objectives import (
    HSIC,
    ClusterCrossEntropy,
    ContrastiveObjective,
    Distillation,
    Guided,
    InfoNCE,
    KoLeo,
    Mixture,
    SupCon,
)
from ccl_plugins.objectives.base import own_terms, reads_projections
from ccl_plugins.pairs import Samples, in_batch
from ccl_plugins.protocols import Sizes

X, Y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).unbind()


class Remembering(ContrastiveObjective):
    """Has state that only its setup can size, and looks at dataset indices."""

    centers: nn.Parameter | None
    average: torch.Tensor | None

    def __init__(self):
        super().__init__()
        self.register_parameter("centers", None)
        self.register_buffer("average", None)

    def setup(self, tables, sizes):
        self.centers = nn.Parameter(torch.ones(sizes.samples, 3))
        self.average = torch.zeros(sizes.samples)

    def terms(self, pairs):
        self.index = pairs.samples.index
        own = pairs.own_sim(0, 1)[None]
        return own, torch.ones_like(own)


def test_a_call_hands_on_dataset_indices():
    objective = Remembering()
    objective(X, Y)
    assert objective.index is None
    objective(X, Y, index=torch.arange(4))
    torch.testing.assert_close(objective.index, torch.arange(4))


def test_a_call_hands_on_further_tensors():
    class Reading(ContrastiveObjective):
        def terms(self, pairs):
            own = pairs.own_sim(0, 1)[None] * pairs.samples.extras["condition/scale"]
            return own, torch.ones_like(own)

    doubled = Reading()(X, Y, extras={"condition/scale": torch.tensor(2.0)})
    once = Reading()(X, Y, extras={"condition/scale": torch.tensor(1.0)})
    torch.testing.assert_close(doubled, 2 * once)


def test_state_that_setup_sizes_is_saved_and_loaded():
    objective = Remembering()
    assert not objective.state_dict()
    objective.setup({}, Sizes(5, 3, 3, 1))
    loaded = nn.ModuleDict({"part": Remembering()})
    loaded.load_state_dict(nn.ModuleDict({"part": objective}).state_dict())
    torch.testing.assert_close(loaded["part"].centers, objective.centers)
    torch.testing.assert_close(loaded["part"].average, torch.zeros(5))
    assert [name for name, _ in loaded.named_parameters()] == ["part.centers"]


def test_a_mixture_lets_its_objectives_refuse_values():
    mixture = Mixture([ClusterCrossEntropy(dim=3, classes=2, of="projection")])
    with pytest.raises(ValueError, match="from 0 to 1, not 0 to 3"):
        mixture(X, Y, condition=torch.arange(4))


def test_a_call_that_is_compiled_gives_the_same_loss_without_the_check_that_waits(monkeypatch):
    objective = InfoNCE(0.3)
    eager = objective(X, Y)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(InfoNCE, "defined_loss", None)
    torch.testing.assert_close(objective(X, Y), eager)


def returning(found):
    class Returning(ContrastiveObjective):
        def terms(self, pairs):
            return found

    return Returning()


@pytest.mark.parametrize(
    ("found", "given"),
    [
        (torch.ones(1, 4), "a Tensor"),
        ((torch.ones(1, 4),), "(1, 4)"),
        ((torch.ones(1, 4), 2.0), "(1, 4) and a float"),
        ((torch.ones(1, 4), torch.ones(2, 4)), "(1, 4) and (2, 4)"),
        ((torch.ones(4), torch.ones(4)), "(4,) and (4,)"),
        ((torch.ones(1, 3), torch.ones(1, 3)), "(1, 3) and (1, 3)"),
        ((torch.ones(1, 4, 2), torch.ones(1, 4, 2)), "(1, 4, 2) and (1, 4, 2)"),
    ],
)
def test_terms_of_another_shape_are_quoted(found, given):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        returning(found)(X, Y)
    assert str(error.value) == (
        f"Returning.terms must return values and weights, both (rows, 4) for 4 anchors, not {given}"
    )


def test_terms_are_a_subclass_s_to_define():
    with pytest.raises(
        NotImplementedError, match=r"^ContrastiveObjective must define terms\(pairs"
    ):
        ContrastiveObjective()(X, Y)


def test_the_loss_is_the_weighted_mean_of_terms_and_0_without_any_weight():
    values, weights = torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]]), torch.ones(2, 4)
    weights[0, 1:] = 0
    torch.testing.assert_close(returning((values, weights))(X, Y), torch.tensor(27.0 / 5))
    assert returning((values, 0 * weights))(X, Y) == 0


def test_weights_that_learn_do_not_change_the_loss_through_their_total():
    weights = torch.ones(1, 4, requires_grad=True)
    values = torch.arange(4.0)[None]
    returning((values, weights))(X, Y).backward()
    torch.testing.assert_close(weights.grad, values / 4)


def test_an_undefined_loss_names_the_objective_and_the_anchors_of_any_row():
    values = torch.ones(2, 4)
    values[1, 2] = torch.nan
    values[0, 0] = torch.inf
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        returning((values, torch.ones(2, 4)))(X, Y)
    assert str(error.value) == "Returning is undefined for 2 of 4 anchors: [0, 2]"


def test_embeddings_come_normalized_unless_the_objective_wants_them_raw():
    class Reading(ContrastiveObjective):
        def terms(self, pairs):
            self.read = pairs
            values = pairs.anchors[0, :, :1].T
            return values, torch.ones_like(values)

    objective = Reading()
    objective(X.half(), Y.half())
    unit = nn.functional.normalize(torch.stack([X, Y]).half().float(), dim=-1)
    torch.testing.assert_close(objective.read.anchors, unit)
    assert objective.read.shared
    assert objective.read.samples.ignored == ()
    objective.embedding = "raw"
    objective(X, Y)
    torch.testing.assert_close(objective.read.anchors, torch.stack([X, Y]))


def test_samples_are_excluded_where_any_view_is_alike():
    z = torch.zeros(2, 4, 1)
    z[0, :2] = z[1, 1:3] = 1  # the first two are alike in one view, the middle two in the other
    views = nn.functional.normalize(torch.stack([X, Y]), dim=-1)
    objective = InfoNCE(exclude=(Linear(), 1.0))
    prepared = objective._prepared(in_batch(views, Samples({"condition": z})))
    alike = torch.zeros(4, 4, dtype=torch.bool)
    alike[0, 1] = alike[1, 0] = alike[1, 2] = alike[2, 1] = True
    assert prepared.others(prepared.negative).equal(~alike & ~torch.eye(4, dtype=torch.bool))


def test_explicit_draws_are_refused_with_the_way_out():
    views = nn.functional.normalize(torch.stack([X, Y]), dim=-1)
    ids = {"condition": torch.tensor([0, 0, 1, 1])}
    pairs = replace(in_batch(views, Samples(ids)), draws=torch.zeros(4, 1).long())
    with pytest.raises(ValueError, match=r"^SupCon compares an anchor with all samples .*infonce"):
        SupCon().loss(pairs)


def test_a_process_computes_the_terms_of_its_own_anchors_alone():
    queries, keys = torch.randn(2, 2, 6, 3, generator=torch.Generator().manual_seed(1)).unbind()
    whole, second = (momentum_pairs(queries, keys, X, *of) for of in ((), (1, 2)))
    for objective in (InfoNCE(), SupCon()):
        samples = Samples({"condition": torch.arange(6) // 2})
        queue = replace(whole.queue, condition={"condition": torch.arange(4)})
        expected, _ = own_terms(objective, replace(whole, samples=samples, queue=queue))
        found, _ = own_terms(objective, replace(second, samples=samples, queue=queue))
        torch.testing.assert_close(found, expected[:, 3:])


@pytest.mark.parametrize("gathers", [True, False])
def test_a_call_compares_with_the_samples_of_all_processes_only_if_told_to(gathers, two_processes):
    views = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(1))
    parts = [views] if gathers else [views[:, :4], views[:, 4:]]
    expected = torch.stack([InfoNCE(0.3)(*part) for part in parts]).mean()
    build = partial(InfoNCE, 0.3, gather_distributed=gathers)
    for found in two_processes(mean_of_calls, build, views):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("build", [InfoNCE, partial(QueuedLoss, InfoNCE(), 8, 3)])
def test_processes_that_gather_batches_of_different_sizes_are_told_them(build, two_processes):
    """Any step may be the first with another size, on one process or on all."""
    per_rank = [(4, 4), (4, 3), (3, 3), (3, 4), (4, 4)]
    for errors in two_processes(call_unevenly, partial(build, gather_distributed=True), per_rank):
        assert [bool(error) for error in errors] == [False, True, False, True, False]
        assert "they have [4, 3] samples, by rank: leave out an incomplete last" in errors[1]
        assert "they have [3, 4] samples" in errors[3]
    for errors in two_processes(call_unevenly, build, per_rank):
        assert errors == [""] * 5


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (InfoNCE(), True),
        (Distillation(), False),
        (ClusterCrossEntropy(), False),
        (ClusterCrossEntropy(of="projection"), True),
        (Mixture([Distillation(), KoLeo("features")]), False),
        (Mixture([Distillation(), KoLeo()]), True),
        (Guided(Distillation(), [{"on": "z", "keep": False, "by": HSIC()}]), False),
        (Guided(InfoNCE(), [{"on": "z", "keep": False, "by": HSIC()}]), True),
        (nn.Module(), True),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, nn.Module) else "",
)
def test_it_is_known_whether_an_objective_reads_features_alone(objective, expected):
    assert reads_projections(objective) == expected

"""What objectives may rely on in Pairs, with keys of another process and with a queue."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from lightly.utils import dist

from ccl_plugins.kernels import RBF
from ccl_plugins.objectives import FairCCLK, InfoNCE, SoftInfoNCE, WeaklySupCCLK
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch, with_keys


def unit(*shape):
    return torch.nn.functional.normalize(torch.randn(*shape, dtype=torch.float64), dim=-1)


def test_a_product_is_computed_once_per_unordered_pair_of_views():
    torch.manual_seed(0)
    pairs = in_batch(unit(3, 5, 4))
    assert pairs.sim(2, 0).data_ptr() == pairs.sim(0, 2).data_ptr()
    torch.testing.assert_close(pairs.sim(2, 0), pairs.anchors[2] @ pairs.anchors[0].T)


def test_own_keys_stand_at_the_offset():
    torch.manual_seed(0)
    keys = unit(2, 6, 4)
    pairs = Pairs(anchors=keys[:, 2:4], keys=keys, anchor_views=(0, 1), key_views=(0, 1), offset=2)
    assert pairs.own().nonzero().tolist() == [[0, 2], [1, 3]]
    torch.testing.assert_close(pairs.own_sim(0, 1), (keys[0, 2:4] * keys[1, 2:4]).sum(1))


def with_queue(full=True):
    """Queries of view 0 against momentum keys of view 1 and a queue, as MoCo has them."""
    torch.manual_seed(0)
    valid = torch.tensor([True, True, True, full])
    return Pairs(
        samples=Samples(
            index=torch.tensor([7, 8, 9]),
            condition={"condition": torch.rand(3, 2, dtype=torch.float64)},
        ),
        queue=Queue(
            unit(4, 4),
            valid,
            {"condition": torch.rand(4, 2, dtype=torch.float64)},
            index=torch.tensor([1, 8, 2, 3]),
        ),
        anchors=unit(1, 3, 4),
        keys=unit(1, 3, 4),
        anchor_views=(0,),
        key_views=(1,),
        batch_candidates=~valid.all(),
    )


@pytest.mark.parametrize(
    "objective",
    [
        SoftInfoNCE(RBF("median")),
        InfoNCE(exclude=(RBF("median"), 0.6)),
        FairCCLK(RBF("median")),
        FairCCLK(RBF("median"), form="released"),
    ],
)
def test_what_stands_in_empty_places_reaches_no_median(objective):
    losses = []
    for rest in (0.0, 7.0, torch.nan):
        pairs = with_queue(full=False)
        pairs.queue.condition["condition"][3:] = rest
        losses.append(objective.loss(pairs))
    assert losses[0].isfinite()
    torch.testing.assert_close(losses, losses[:1] * 3, rtol=0, atol=0)


def test_over_an_empty_queue_a_median_is_that_of_the_batch():
    pairs = with_queue()
    pairs.queue.valid.fill_(False)
    alone = replace(pairs, queue=None)
    losses = [FairCCLK(RBF("median")).loss(each) for each in (pairs, alone)]
    torch.testing.assert_close(losses[0], losses[1])


@pytest.mark.parametrize("kind", [FairCCLK, WeaklySupCCLK])
def test_cclk_takes_batch_and_queue_as_its_samples(kind):
    pairs, tau, ridge = with_queue(full=False), 0.2, 0.1
    z = torch.cat([pairs.samples.condition["condition"], pairs.queue.condition["condition"][:3]])
    keys = torch.cat([pairs.keys[0], pairs.queue.keys[:3]])
    k = torch.exp(-((z[:, None] - z) ** 2).sum(-1) / 0.5)
    w = (torch.linalg.inv(k + ridge * torch.eye(6).double()) @ k).clamp_min(0)
    total = 0.0
    for i in range(3):
        e = torch.exp(keys @ pairs.anchors[0, i] / tau)
        counts = torch.ones(6, dtype=torch.bool)
        counts[4] = i != 1  # the queue's second entry is the image of anchor 1
        c = (w[:, i] * e)[counts].sum()
        if kind is FairCCLK:
            total = total - torch.log(e[i] / (e[i] + 5 * c))
        else:
            counts[i], queue = False, torch.arange(6) >= 3
            negatives = e[counts & (queue | pairs.batch_candidates)].sum()
            total = total - torch.log(c / (c + negatives))
    found = kind(RBF(0.5), tau, ridge=ridge).loss(pairs)
    torch.testing.assert_close(found, total / 3, rtol=1e-9, atol=0)


def test_pairs_stay_as_they_are_and_equal_only_themselves():
    pairs = with_queue()
    with pytest.raises(FrozenInstanceError):
        pairs.offset = 1
    with pytest.raises(FrozenInstanceError):
        pairs.queue.valid = None
    assert len({pairs, replace(pairs)}) == 2
    assert "_products" not in repr(pairs)


def test_products_with_the_queue_are_computed_once():
    pairs = with_queue()
    assert pairs.sim_queue(0) is pairs.sim_queue(0)
    torch.testing.assert_close(pairs.sim_queue(0), pairs.anchors[0] @ pairs.queue.keys.T)


def test_a_condition_that_differs_per_view_is_that_of_the_first_view_by_default():
    values = torch.rand(2, 3, 5)
    pairs = in_batch(unit(2, 3, 4), Samples({"per view": values, "shared": values[0]}))
    assert pairs.samples.condition_of("per view") is not None
    torch.testing.assert_close(pairs.samples.condition_of("per view"), values[0])
    torch.testing.assert_close(pairs.samples.condition_of("per view", 1), values[1])
    torch.testing.assert_close(pairs.samples.condition_of("shared", 1), values[0])
    torch.testing.assert_close(pairs.everyone("per view"), values[0])


def test_excluded_samples_are_taken_from_the_negatives_that_a_user_gave():
    given = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).bool()
    excluded = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 1, 0]]).bool()
    pairs = Pairs.from_masks(unit(2, 3, 4), ~given & False, given)
    assert torch.equal(pairs.excluding(excluded).negative, given & ~excluded)
    assert torch.equal(in_batch(unit(2, 3, 4)).excluding(excluded).negative, ~excluded)


def test_pairs_without_a_queue_say_so():
    for read in (lambda pairs: pairs.sim_queue(0), lambda pairs: pairs.in_queue()):
        with pytest.raises(ValueError, match="these pairs have no queue"):
            read(in_batch(unit(2, 3, 4)))


def test_replicated_pairs_have_the_rows_of_all_processes(monkeypatch):
    ours, theirs = torch.rand(2, 3, 5), torch.rand(2, 3, 5)
    positive, draws = torch.eye(3, 6).bool(), torch.arange(6).reshape(3, 2)
    others = {id(ours): theirs, id(positive): ~positive, id(draws): draws + 1}
    monkeypatch.setattr(dist, "world_size", lambda: 2)
    monkeypatch.setattr(dist, "gather", lambda x: (x, others[id(x)]))
    keys = unit(2, 6, 4)
    pairs = Pairs(keys[:, :3], keys, (0, 1), (0, 1), processes=2, shared=True)
    pairs = replace(
        pairs, samples=replace(pairs.samples, features=ours), draws=draws, positive=positive
    ).replicated()
    torch.testing.assert_close(pairs.samples.features, torch.cat([ours, theirs], 1))
    assert torch.equal(pairs.draws, torch.cat([draws, draws + 1]))
    assert torch.equal(pairs.positive, torch.cat([positive, ~positive]))
    assert pairs.negative is None
    assert pairs.anchors is keys
    assert (pairs.offset, pairs.processes) == (0, 1)
    assert pairs.replicated() is pairs


def test_classes_of_several_columns_are_refused_with_their_shape():
    pairs = in_batch(unit(2, 3, 4), Samples({"kind": torch.zeros(3, 2, dtype=torch.long)}))
    with pytest.raises(
        ValueError, match=r"kind must be one class id .* not \(3, 2\): give one col"
    ):
        pairs.same_class("kind")


def test_pairs_of_other_anchors_have_products_of_their_own():
    torch.manual_seed(0)
    pairs, other = in_batch(unit(2, 3, 4)), unit(2, 3, 4)
    pairs.sim(0, 1)
    torch.testing.assert_close(replace(pairs, anchors=other).sim(0, 1), other[0] @ pairs.keys[1].T)
    with pytest.raises(TypeError, match="_products"):
        Pairs(other, other, (0, 1), (0, 1), _products={})


def test_anchors_are_compared_with_other_views_in_both_directions_by_default():
    pairs = in_batch(unit(3, 5, 4))
    later = [(0, 1), (0, 2), (1, 2)]
    assert [*pairs.cross(symmetric=False)] == later
    assert {*pairs.cross()} == {*later, *((j, i) for i, j in later)}
    assert pairs.key_views == (0, 1, 2)
    assert [pairs.within(i) for i in range(3)] == [0, 1, 2]
    keyed = Pairs(unit(2, 3, 4), unit(2, 3, 4), (0, 1), (1, 2))
    assert [keyed.within(i) for i in range(2)] == [None, 0]


def test_own_rows_are_among_those_of_all_processes():
    pairs = Pairs(unit(2, 2, 4), unit(2, 6, 4), (0, 1), (0, 1), offset=2)
    assert pairs.rows == slice(2, 4)
    assert pairs.sample_count == 6
    assert replace(pairs, samples=Samples(missing=torch.arange(6) == 4)).sample_count == 5


def test_only_ignored_conditions_leave_samples_out_together():
    nan = torch.nan
    pairs = replace(
        in_batch(
            unit(2, 4, 4),
            Samples(
                {
                    "age": torch.tensor([1.0, nan, 3.0, 4.0]),
                    "kind": torch.tensor([5, 6, -1, 8]),
                    "color": torch.tensor([[nan, 1.0]] * 4),
                },
                ignored=("age", "kind", "elsewhere"),
            ),
        ),
        queue=Queue(
            unit(4, 4),
            torch.tensor([True, True, True, False]),
            {"age": torch.tensor([1.0, nan, 3.0, 4.0]), "kind": torch.arange(4) - 1},
        ),
    )
    for names in ([], ["color"], ["elsewhere"]):
        assert pairs.without_missing(names) is pairs
    some = pairs.without_missing(["age", "color"])
    assert some.samples.missing.tolist() == [False, True, False, False]
    assert some.samples.condition["age"].tolist() == [1.0, 3.0, 3.0, 4.0]
    assert some.samples.condition["kind"] is pairs.samples.condition["kind"]
    assert some.queue.valid.tolist() == [True, False, True, False]
    for both in (some.without_missing(["kind"]), pairs.without_missing(["kind", "age"])):
        assert both.samples.missing.tolist() == [False, True, True, False]
        assert both.queue.valid.tolist() == [False, False, True, False]
        assert both.samples.condition["kind"].tolist()[::3] == [5, 8]
        assert (both.samples.condition["kind"] > 0).all()
    alone = replace(pairs, queue=None).without_missing(["kind"])
    assert alone.samples.missing.tolist() == [False, False, True, False]
    assert alone.queue is None


def test_everyone_is_the_batch_in_a_view_and_then_the_queue():
    pairs = replace(
        with_queue(full=False),
        samples=Samples({"per view": torch.rand(2, 3, 5)}),
    )
    queue = replace(pairs.queue, condition={"per view": torch.rand(4, 5)})
    pairs = replace(pairs, queue=queue)
    batch, queue = pairs.samples.condition["per view"], pairs.queue.condition["per view"]
    for i in range(2):
        expected = torch.cat([batch[i], queue[:3], batch[i][:1]])  # an empty place is the batch's
        torch.testing.assert_close(pairs.everyone("per view", i), expected, rtol=0, atol=0)
    assert torch.equal(pairs.everyone("per view"), pairs.everyone("per view", 0))


def test_samples_are_there_unless_missing_or_in_an_empty_place():
    queued, missing = with_queue(full=False), torch.tensor([False, True, False])
    there = [True, True, True, True, True, True, False]
    assert queued.valid().tolist() == there
    assert replace(queued, samples=replace(queued.samples, missing=missing)).valid().tolist() == [
        True,
        False,
        *there[2:],
    ]
    batch = in_batch(unit(2, 3, 4))
    assert batch.valid() is None
    assert replace(batch, samples=Samples(missing=missing)).valid().tolist() == [True, False, True]


@pytest.fixture
def second_of_two(monkeypatch):
    """The second of two processes; the first has other values of the same shape."""

    def first(x):
        return ~x if x.dtype == torch.bool else x + 1

    monkeypatch.setattr(dist, "world_size", lambda: 2)
    monkeypatch.setattr(dist, "rank", lambda: 1)
    monkeypatch.setattr(dist, "gather", lambda x: (first(x), x))


@pytest.mark.usefixtures("second_of_two")
@pytest.mark.parametrize("keyed", [False, True])
def test_pairs_of_two_processes_have_the_keys_and_samples_of_both(keyed):
    x, keys = torch.rand(2, 3, 4), torch.rand(2, 3, 4)
    condition = {"age": torch.rand(3, 2), "per view": torch.rand(2, 3, 5)}
    given = condition, torch.arange(3), torch.rand(2, 3, 6), {"centers": torch.rand(9, 6)}

    def make(**more):
        if keyed:
            return with_keys(x, keys, Samples(*given), first_key_view=0, **more)
        return in_batch(x, Samples(*given), **more)

    mine = keys if keyed else x
    alone = make()
    assert (alone.processes, alone.offset, alone.shared) == (1, 0, not keyed)
    torch.testing.assert_close(
        (alone.keys, alone.samples.condition, alone.samples.index), (mine, *given[:2])
    )
    both = make(gather_distributed=True)
    assert (both.processes, both.offset, both.shared) == (2, 3, not keyed)
    torch.testing.assert_close(both.keys, torch.cat([mine + 1, mine], 1))
    age, per_view = condition.values()
    expected = {
        "age": torch.cat([age + 1, age]),
        "per view": torch.cat([per_view + 1, per_view], 1),
    }
    torch.testing.assert_close(both.samples.condition, expected)
    assert both.samples.index.tolist() == [1, 2, 3, 0, 1, 2]
    for pairs in (alone, both):
        assert pairs.anchors is x
        assert pairs.anchor_views == pairs.key_views == (0, 1)
        torch.testing.assert_close((pairs.samples.features, pairs.samples.extras), given[2:])
    nothing = in_batch(x, gather_distributed=True).samples
    assert (nothing.index, nothing.condition, nothing.extras) == (None, {}, {})


@pytest.mark.usefixtures("second_of_two")
def test_masks_are_of_the_samples_of_all_processes():
    x, positives = unit(2, 3, 4), torch.rand(3, 6) < 0.3
    age = {"age": torch.rand(3)}
    pairs = Pairs.from_masks(x, positives, samples=Samples(age), gather_distributed=True)
    assert pairs.offset == 3
    assert torch.equal(pairs.negative, ~positives)
    torch.testing.assert_close(
        pairs.samples.condition["age"], torch.cat([age["age"] + 1, age["age"]])
    )
    every = pairs.replicated()
    assert (every.offset, every.processes) == (0, 1)
    assert torch.equal(every.positive, torch.cat([~positives, positives]))
    assert torch.equal(every.negative, ~every.positive)
    alone = Pairs.from_masks(x, positives[:, :3], samples=Samples(age))
    assert alone.processes == 1
    with pytest.raises(
        ValueError, match=r"negatives must be .*\(3, 3\), not torch.bool .* \(3, 6\)"
    ):
        Pairs.from_masks(x, positives[:, :3], positives)


def test_a_sample_may_be_both_positive_and_negative_of_itself_alone():
    both = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 1]]).bool()
    negatives = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 1]]).bool()
    assert torch.equal(Pairs.from_masks(unit(2, 3, 4), both, negatives).positive, both)
    negatives[2, 1] = True
    with pytest.raises(ValueError, match="sample 1 is both a positive and a negative of sample 2"):
        Pairs.from_masks(unit(2, 3, 4), both, negatives)


@pytest.mark.usefixtures("second_of_two")
def test_keys_of_their_own_leave_anchors_to_be_gathered():
    x, keys = torch.rand(2, 3, 4), torch.rand(2, 3, 4)
    pairs = with_keys(x, keys, first_key_view=0, gather_distributed=True).replicated()
    torch.testing.assert_close(pairs.anchors, torch.cat([x + 1, x], 1))
    torch.testing.assert_close(pairs.keys, torch.cat([keys + 1, keys], 1))
    assert (pairs.samples.features, pairs.draws, pairs.positive, pairs.negative) == (None,) * 4


def test_normalized_pairs_are_on_the_unit_sphere_and_share_what_they_shared():
    raw = torch.randn(2, 3, 4, dtype=torch.float64) * 5
    queue = Queue(torch.randn(4, 4, dtype=torch.float64) * 5, torch.tensor([1, 1, 0, 1]).bool())
    keys = raw.flip(1)
    pairs = Pairs(raw, keys, (0, 1), (0, 1), Samples(), queue).normalized()
    for normalized, before in (
        (pairs.anchors, raw),
        (pairs.keys, keys),
        (pairs.queue.keys, queue.keys),
    ):
        torch.testing.assert_close(normalized, before / before.norm(dim=-1, keepdim=True))
    assert pairs.queue.valid is queue.valid
    alone = Pairs(raw, raw, (0, 1), (0, 1)).normalized()
    assert alone.keys is alone.anchors
    assert alone.queue is None


def test_one_more_condition_is_computed_in_the_batch_and_in_the_queue():
    pairs = with_queue()
    before = pairs.samples.condition["condition"], pairs.queue.condition["condition"]
    more = pairs.with_condition("double", lambda given: given["condition"] * 2)
    for place, values in zip((more.samples, more.queue), before, strict=True):
        assert [*place.condition] == ["condition", "double"]
        assert place.condition["condition"] is values
        assert torch.equal(place.condition["double"], values * 2)
    assert torch.equal(more.samples.index, pairs.samples.index)
    assert more.queue.keys is pairs.queue.keys
    alone = replace(pairs, queue=None).with_condition(
        "double", lambda given: given["condition"] * 2
    )
    assert alone.queue is None
    assert "double" in alone.samples.condition


def test_a_queue_that_differs_by_view_gives_the_keys_of_the_views_asked_for():
    per_view = Queue(unit(3, 4, 2), torch.ones(4).bool())
    assert torch.equal(per_view.of_view(2), per_view.keys[2])
    assert per_view.of_views([0, 1, 2]) is per_view.keys
    for views in ([2, 0], [0, 1], [0, 2, 1]):
        assert torch.equal(per_view.of_views(views), per_view.keys[views])
    shared = Queue(unit(4, 2), torch.ones(4).bool())
    assert shared.of_view(2) is shared.of_views([2, 0]) is shared.keys


def test_samples_are_gathered_row_by_row_but_for_features(monkeypatch):
    given = Samples(
        {"per view": torch.rand(2, 3, 5), "shared": torch.rand(3, 5)},
        torch.tensor([7, 8, 9]),
        torch.rand(2, 3, 4),
        partner=torch.tensor([1, 2, 3]),
        partner_condition={"shared": torch.rand(3, 5)},
    )
    monkeypatch.setattr(dist, "world_size", lambda: 2)
    monkeypatch.setattr(dist, "gather", lambda x: (x, x + 1))
    everyone = given.gathered()

    def both(x, dim=0):
        return torch.cat([x, x + 1], dim)

    assert torch.equal(everyone.condition["per view"], both(given.condition["per view"], 1))
    assert torch.equal(everyone.condition["shared"], both(given.condition["shared"]))
    assert torch.equal(everyone.index, both(given.index))
    assert torch.equal(everyone.partner, both(given.partner))
    shared = everyone.partner_condition["shared"]
    assert torch.equal(shared, both(given.partner_condition["shared"]))
    assert everyone.features is given.features
    bare = Samples().gathered()
    assert (bare.index, bare.partner) == (None, None)


def test_an_anchor_view_is_compared_with_its_own_view_of_the_queue():
    pairs = replace(in_batch(unit(2, 3, 4)), queue=Queue(unit(2, 5, 4), torch.ones(5).bool()))
    for i in (1, 0):
        torch.testing.assert_close(pairs.sim_queue(i), pairs.anchors[i] @ pairs.queue.keys[i].T)

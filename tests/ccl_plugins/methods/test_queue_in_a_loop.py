"""A queue in a loop of one's own, beside lightly's memory bank."""

from __future__ import annotations

import copy

import pytest
import torch
from lightly.loss import NTXentLoss
from support.slow_infonce import assert_same
from torch.nn.functional import normalize

from ccl_plugins.kernels import RBF
from ccl_plugins.methods import FeatureQueue, QueuedLoss
from ccl_plugins.objectives import FairCCLK, InfoNCE, Lightly, Mixture, SupCon
from ccl_plugins.testing import on_two_ranks

D = 6


def batch(step, n=8, views=1):
    generator = torch.Generator().manual_seed(step)
    queries, keys = torch.randn(2, views, n, D, generator=generator, dtype=torch.float64)
    return queries.requires_grad_(), keys


def filled(size=24, **conditions):
    """A queue of random keys in double precision."""
    queue = FeatureQueue(size, D).double()
    keys = torch.randn(size, D, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    queue.write(normalize(keys, dim=1), None, conditions)
    return queue


def test_infonce_with_a_full_queue_is_lightlys_loss_with_a_memory_bank():
    ours, theirs = (
        QueuedLoss(InfoNCE(0.3), 24, D),
        NTXentLoss(0.3, memory_bank_size=(24, D)).double(),
    )
    ours.queue = filled()
    theirs.memory_bank.bank.copy_(ours.queue.keys)
    for step in range(7):  # both are written over twice
        (query,), (key,) = batch(step)
        values = [criterion(query, key) for criterion in (ours, theirs)]
        gradients = [torch.autograd.grad(value, query)[0] for value in values]
        torch.testing.assert_close(values[0], values[1], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-11)
        bank = theirs.memory_bank.bank
        torch.testing.assert_close(ours.queue.keys, bank, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("views", [1, 2])
def test_one_call_is_pairs_then_loss_then_enqueue(views):
    whole, queue, supcon = (
        QueuedLoss(SupCon(0.3), 20, D).double(),
        FeatureQueue(20, D).double(),
        SupCon(0.3),
    )
    for step in range(5):  # it is filled and wraps
        query, key = batch(step, views=views)
        query, key = (query[0], key[0]) if views == 1 else (query, key)
        labels, index = torch.arange(8) % 3, torch.arange(8) + 4 * step
        found = whole(query, key, labels, index)
        pairs = queue.pairs(query, key, labels, index)
        expected = supcon.loss(pairs)
        gradient = torch.autograd.grad(expected, query)
        queue.enqueue(pairs)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, query), gradient)
        torch.testing.assert_close(whole.queue.state_dict(), queue.state_dict())
    assert whole.state_dict().keys() >= {"queue.keys", "queue.condition:condition"}


def test_supcon_over_labeled_keys_equals_the_slow_loop():
    ids, queued = torch.tensor([0, 1, 0, 2, 1, 0, 2, 1]), torch.arange(24) % 4
    queue, (queries, keys) = filled(condition=queued), batch(0)
    query, key = queries[0].detach().requires_grad_(), keys[0]
    unit, other = normalize(query, dim=1), normalize(key, dim=1)
    total = 0
    for i in range(8):
        scores = torch.stack([torch.dot(unit[i], k) / 0.3 for k in (other[i], *queue.keys)])
        alike = [0] + [1 + q for q in range(24) if queued[q] == ids[i]]
        total += -sum(scores[a] - torch.logsumexp(scores, 0) for a in alike) / len(alike)
    found = SupCon(0.3).loss(queue.pairs(query, key, ids))
    assert_same(found, total / 8, (query,))


def test_labels_stay_beside_their_keys_by_name():
    queue = FeatureQueue(12, D)
    for step in range(3):
        queries, keys = batch(step)
        labels = torch.arange(8) + 8 * step
        given = {"label": labels, "a.b%2E": labels[:, None].float()}
        queue.enqueue(queue.pairs(queries[0].float(), keys[0].float(), given, labels))
    held = queue.conditions
    assert {*held} == {"label", "a.b%2E"}
    torch.testing.assert_close(held["label"], queue.index)
    torch.testing.assert_close(held["a.b%2E"][:, 0].long(), queue.index)
    assert sorted(queue.index.tolist()) == list(range(12, 24))
    assert FeatureQueue(2, 3).conditions == {}


def test_queries_of_several_views_are_compared_with_the_keys_of_the_others():
    queries, keys = batch(0, views=2)
    pairs = filled().pairs(queries, keys)
    assert list(pairs.cross()) == [(0, 1), (1, 0)]
    torch.testing.assert_close(pairs.anchors, normalize(queries, dim=-1))
    torch.testing.assert_close(pairs.keys, normalize(keys, dim=-1))
    one = filled().pairs(queries[0], keys[1])
    assert list(one.cross()) == [(0, 0)]
    torch.testing.assert_close(filled().pairs(queries[:1], keys[1:]).sim(0, 0), one.sim(0, 0))


def test_keys_give_no_gradient_and_half_precision_is_compared_in_float32():
    queries, keys = batch(0)
    query, key = queries[0].detach().half().requires_grad_(), keys[0].half().requires_grad_()
    queue = filled().float()
    pairs = queue.pairs(query, key)
    assert pairs.anchors.dtype == pairs.keys.dtype == torch.float32
    InfoNCE().loss(pairs).backward()
    assert query.grad is not None
    assert key.grad is None


def test_keys_of_the_same_image_in_the_queue_are_left_out_with_an_index():
    queries, keys = batch(0)
    queue = FeatureQueue(8, D).double()
    queue.enqueue(queue.pairs(queries[0], keys[0], index=torch.arange(8)))
    assert queue.pairs(queries[0], keys[0]).in_queue().all()
    mine = queue.pairs(queries[0], keys[0], index=torch.arange(8)).in_queue()
    torch.testing.assert_close(~mine, torch.eye(8).bool())


def test_a_mixture_with_a_loss_of_raw_embeddings_gets_these_and_a_queue_on_the_sphere():
    criterion = QueuedLoss(Mixture([Lightly("VICRegLoss"), InfoNCE(0.3)]), 16, D).double()
    assert criterion.gather_distributed is False
    alone, vicreg = QueuedLoss(InfoNCE(0.3), 16, D).double(), Lightly("VICRegLoss")
    for step in range(3):
        (query,), (key,) = batch(step)
        expected = vicreg(query, key) + alone(query, key)
        torch.testing.assert_close(criterion(query, key), expected)
    torch.testing.assert_close(normalize(criterion.queue.keys, dim=1), alone.queue.keys)


def test_a_queue_of_an_objective_that_reads_none_is_warned_of():
    with pytest.warns(UserWarning, match="Lightly compares the samples of a batch alone"):
        QueuedLoss(Lightly("NTXentLoss"), 16, D)


def test_a_call_without_gradient_leaves_the_queue_as_it_is():
    criterion, (queries, keys) = QueuedLoss(InfoNCE(), 16, D).double(), batch(0)
    before = copy.deepcopy(criterion.queue.state_dict())
    with torch.no_grad():
        criterion(queries[0].detach(), keys[0])
    torch.testing.assert_close(criterion.queue.state_dict(), before)
    criterion(queries[0], keys[0])
    assert criterion.queue.filled == 8


def test_a_schedule_and_a_learned_temperature_stay_the_objectives():
    criterion = QueuedLoss(InfoNCE({"learn": True, "start": 0.2}), 16, D)
    assert [*dict(criterion.named_parameters())] == ["objective._temperature.log"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((torch.zeros(8, 5), torch.zeros(8, 5)), r"both be \(n, 6\) or \(u, n, 6\), not \(8, 5\)"),
        ((torch.zeros(8, 6), torch.zeros(7, 6)), r"not \(8, 6\) and \(7, 6\)"),
        ((torch.zeros(6), torch.zeros(6)), r"not \(6,\) and \(6,\)"),
        (
            (torch.zeros(8, 6),) * 2 + (torch.zeros(7),),
            r"condition must .* 8 samples, not .* \(7,\)",
        ),
        ((torch.zeros(8, 6),) * 2 + (torch.tensor(1),), r"condition must .* not the shape \(\)"),
        ((torch.zeros(8, 6),) * 2 + (None, torch.zeros(7)), r"index must have one row"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shape(given, message):
    with pytest.raises(ValueError, match=message):
        FeatureQueue(16, 6).pairs(*given)


LABELS = torch.arange(8) % 3
UNLABELED = torch.tensor([0, 1, -1, 0, 1, -1, 0, 1])
NUMBERS = torch.arange(8) / 8


@pytest.mark.parametrize(
    ("objective", "condition", "message"),
    [
        (SupCon(), UNLABELED, r"class ids below 0 in 2 of 8 rows: \[2, 5\]"),
        (SupCon(), UNLABELED.clamp_min(0) - 100, "class ids below 0 in 8 of 8 rows"),
        (SupCon(), NUMBERS, "needs a categorical condition, but condition is continuous"),
        (SupCon(), LABELS.tolist(), "must be a tensor, not list"),
        (SupCon(), None, "SupCon needs a condition"),
        (InfoNCE(), LABELS, "InfoNCE reads no condition"),
        (FairCCLK(RBF(0.1)), NUMBERS / 0, "holds NaN or inf in 8 of 8 rows"),
    ],
)
def test_a_queued_loss_refuses_the_conditions_that_a_direct_call_refuses(
    objective, condition, message
):
    (query,), (key,) = batch(0)
    criterion = QueuedLoss(objective, 16, D).double()
    with pytest.raises((TypeError, ValueError), match=message):
        criterion(query, key, condition)
    assert criterion.queue.filled == 0


def test_a_queue_refuses_values_that_are_missing():
    (query,), (key,) = batch(0)
    with pytest.raises(ValueError, match="-1 means a missing value"):
        FeatureQueue(16, D).double().pairs(query, key, UNLABELED)


def test_samples_without_a_value_are_left_out_of_batch_and_queue():
    ignoring, without = (QueuedLoss(SupCon(0.3), 64, D).double() for _ in range(2))
    known = UNLABELED >= 0
    for step in range(4):  # the queue does not become full
        (query,), (key,) = batch(step)
        found = ignoring(query, key, UNLABELED, missing="ignore")
        expected = without(query[known], key[known], UNLABELED[known])
        assert_same(found, expected, (query,))
    assert (ignoring.queue.filled, without.queue.filled) == (32, 24)


def test_a_condition_that_the_keys_in_the_queue_lack_is_refused():
    queue, ((query,), (key,)) = FeatureQueue(16, D).double(), batch(0)
    queue.enqueue(queue.pairs(query, key))
    with pytest.raises(ValueError, match="the 8 keys in the queue have no 'condition'"):
        queue.pairs(query, key, LABELS)


def test_a_condition_of_another_form_than_the_keys_have_is_refused():
    queue, ((query,), (key,)) = FeatureQueue(16, D).double(), batch(0)
    queue.enqueue(queue.pairs(query, key, NUMBERS))
    for other in (LABELS, NUMBERS[:, None]):
        with pytest.raises(ValueError, match=r"holds 'condition' as \(n\) torch.float32, and"):
            queue.pairs(query, key, other)


def test_ids_in_bytes_do_not_make_later_ids_wrap():
    queue, ((query,), (key,)) = FeatureQueue(16, D).double(), batch(0)
    for labels in (LABELS.byte(), LABELS + 1000):
        queue.enqueue(queue.pairs(query, key, labels))
    torch.testing.assert_close(queue.conditions["condition"], torch.cat([LABELS, LABELS + 1000]))


def test_a_queued_loss_gathers_if_its_objective_does():
    assert QueuedLoss(SupCon(gather_distributed=True), 16, D).gather_distributed
    assert not QueuedLoss(SupCon(), 16, D).gather_distributed


def test_two_processes_equal_one():
    from support.sharded import losses_of_a_loop

    expected = losses_of_a_loop()
    for found in on_two_ranks(losses_of_a_loop):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_a_condition_per_view_keeps_the_last_views_rows_in_the_queue():
    queries, keys = batch(0, views=2)
    z = torch.rand(2, 8, 3, dtype=torch.float64)
    queue = FeatureQueue(8, D).double()
    queue.enqueue(queue.pairs(queries, keys, {"z": z}))
    torch.testing.assert_close(queue.conditions["z"], z[1])
    torch.testing.assert_close(queue.pairs(queries, keys, {"z": z}).everyone("z", 0)[8:], z[1])

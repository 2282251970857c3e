"""Pairs of anchors with keys of their own, and the blocks that a method with keys is made of."""

from __future__ import annotations

import pytest
import torch
from support.sharded import losses_and_queue

from ccl_plugins.methods import FeatureQueue
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Samples, in_batch, with_keys
from ccl_plugins.testing import on_two_ranks

X, KEYS = torch.randn(2, 4, 3), torch.randn(2, 4, 3)


@pytest.mark.parametrize(
    ("anchors", "first", "cross"),
    [(X[:1], 1, [(0, 0), (0, 1)]), (X, 0, [(0, 1), (1, 0)]), (X, 1, [(0, 0), (0, 1), (1, 1)])],
)
def test_anchors_are_compared_with_keys_of_other_views(anchors, first, cross):
    pairs = with_keys(anchors, KEYS, first_key_view=first)
    assert list(pairs.cross()) == cross
    torch.testing.assert_close(pairs.sim(0, 1), anchors[0] @ KEYS[1].T)


def test_one_anchor_view_and_one_key_view_may_be_of_two_images():
    assert [*with_keys(X[:1], KEYS[:1], first_key_view=1).cross()] == [(0, 0)]
    assert [*with_keys(X[:1], KEYS, first_key_view=0).cross()] == [(0, 1)]
    assert [*with_keys(X, KEYS[:1], first_key_view=0).cross()] == [(1, 0)]
    assert with_keys(X, KEYS, first_key_view=2).key_views == (2, 3)


def test_equal_keys_give_the_loss_of_the_batch():
    z = {"age": torch.rand(4, 2)}
    keyed = with_keys(X, X.clone(), Samples(z, torch.arange(4)), first_key_view=0)
    torch.testing.assert_close(InfoNCE().loss(keyed), InfoNCE().loss(in_batch(X, Samples(z))))
    torch.testing.assert_close((keyed.samples.condition, keyed.samples.index), (z, torch.arange(4)))


@pytest.mark.parametrize(
    ("keys", "first", "message"),
    [
        (None, 1, "no keys"),
        (KEYS[0], 1, r"\(u, n, d\) .* \(1, 4, 3\) and \(4, 3\)"),
        (KEYS[:, :2], 1, r"equal n and d, not \(1, 4, 3\) and \(2, 2, 3\)"),
        (KEYS[:1], 0, "first_key_view=1"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys, first, message):
    with pytest.raises(ValueError, match=message):
        with_keys(X[:1], keys, first_key_view=first)


def test_projections_without_views_are_refused_with_their_shape():
    with pytest.raises(ValueError, match=r"not \(4, 3\) and \(4, 3\)"):
        with_keys(X[0], KEYS[0], first_key_view=1)


def test_a_queue_keeps_what_pairs_say_of_their_samples():
    queue, age, ids = FeatureQueue(6, 3), torch.rand(4, 2), torch.tensor([3, 9, 5, 7])
    given = {"age": age, "views": torch.rand(2, 4, 3), "label": torch.arange(4)}
    queue.enqueue(with_keys(X[:1], KEYS, Samples(given, ids), first_key_view=1))
    pairs = queue.add_to(with_keys(X[:1], KEYS, Samples(given, torch.arange(4)), first_key_view=1))
    held = pairs.queue.valid
    torch.testing.assert_close(pairs.queue.keys[held], KEYS[1])
    torch.testing.assert_close(pairs.queue.index[held], ids)
    expected = {**given, "views": given["views"][1]}
    torch.testing.assert_close({k: z[held] for k, z in pairs.queue.condition.items()}, expected)
    assert pairs.in_queue().tolist()[3] == [False, True, True, True, False, False]  # 3 is its own
    with pytest.raises(ValueError, match="batch of 8 does not fit into the queue of 6"):
        queue.check_batch(8)


@pytest.mark.parametrize("gathered", [True, False])
def test_the_queues_of_two_processes_hold_the_keys_of_both(gathered):
    one = losses_and_queue(8, gathered)
    for rank in on_two_ranks(losses_and_queue, 4, gathered):
        torch.testing.assert_close(rank["queue"], one["queue"])
        if gathered:
            torch.testing.assert_close(rank["loss"], one["loss"])

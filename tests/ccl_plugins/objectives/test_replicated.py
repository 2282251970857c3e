"""Pairs with the anchors of all ranks on every rank."""

from __future__ import annotations

import torch
from support.sharded import replicated_parts

from ccl_plugins.pairs import Pairs, in_batch


def test_on_one_process_they_are_the_same_pairs():
    pairs = in_batch(torch.randn(2, 4, 3))
    assert pairs.replicated() is pairs


def test_anchors_masks_draws_and_features_are_gathered(two_processes):
    torch.manual_seed(0)
    whole = Pairs(
        anchors=torch.randn(2, 6, 3),
        keys=torch.randn(2, 6, 3),
        anchor_views=(0, 1),
        key_views=(0, 1),
        draws=torch.randint(6, (6, 4)),
        positive=torch.rand(6, 6) < 0.3,
        negative=torch.rand(6, 6) < 0.3,
    )
    names = ("anchors", "keys", "draws", "positive", "negative")
    parts = {name: getattr(whole, name) for name in names} | {"features": torch.randn(2, 6, 5)}
    for found in two_processes(replicated_parts, parts):
        assert found.pop("keys_are_anchors") is False
        for name, value in found.items():
            torch.testing.assert_close(value, parts[name])


def test_keys_of_a_batch_are_the_anchors(two_processes):
    torch.manual_seed(0)
    views = torch.randn(2, 6, 3)
    for found in two_processes(replicated_parts, {"anchors": views}):
        assert found["keys_are_anchors"]
        torch.testing.assert_close(found["anchors"], views)

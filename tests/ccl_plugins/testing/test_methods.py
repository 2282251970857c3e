"""Methods that break one law each."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.broken import broken_laws, names
from torch import nn

from ccl_plugins.methods import MoCoV2, SimCLR


class Sound(SimCLR):
    """SimCLR."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(16, 8, backbone=backbone)

    EXAMPLE = {}  # noqa: RUF012  a constant of a test


class SoundKeys(MoCoV2):
    """MoCo v2."""

    EXAMPLE = {}  # noqa: RUF012  a constant of a test

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(16, 8, queue_size=32, backbone=backbone)


class Flat(Sound):
    """Features of all views in one row."""

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, features=embedded.features.flatten(0, 1))


class Relative(Sound):
    """Features that depend on the batch."""

    def encode(self, x):
        features = super().encode(x)
        return features - features.mean(0)


class Misplaced(Sound):
    """The index of the sample before."""

    def pairs(self, embedded, condition, index):
        return super().pairs(embedded, condition, index.roll(1))


class MisplacedKeys(SoundKeys):
    """The key of the sample before."""

    def pairs(self, embedded, condition, index):
        first = embedded.keys[:, :1] + 0 * embedded.keys
        return super().pairs(replace(embedded, keys=first.cumsum(1)), condition, index)


class Unused(Sound):
    """Has an unused layer."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.unused = nn.Linear(2, 2)


class LearnedKeys(SoundKeys):
    """With a gradient through the keys."""

    def pairs(self, embedded, condition, index):
        pairs = super().pairs(embedded, condition, index)
        return replace(pairs, keys=pairs.keys + 0 * pairs.anchors.sum())


class Apart(SoundKeys):
    """Its momentum encoder starts with other weights."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        for parameter in self.key_encoder.parameters():
            parameter.data += 0.1


class Growing(Sound):
    """Changes weights with the queue."""

    @torch.no_grad()
    def enqueue(self, pairs):
        for parameter in self.parameters():
            parameter *= 0.9


class Forgetful(Sound):
    """Counts steps outside its state dict."""

    age = 0

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, projections=embedded.projections + self.age)

    def after_step(self, step, total):
        self.age += 1


class StopsShort(Sound):
    """Fails in the last step."""

    def after_step(self, step, total):
        if step + 1 == total:
            raise ZeroDivisionError


BROKEN = {
    Sound: set(),
    SoundKeys: set(),
    Flat: {"embeds_views"},
    Relative: {"evaluation_looks_at_each_image_alone"},
    Misplaced: {"own_keys_are_at_own_positions"},
    MisplacedKeys: {"own_keys_are_at_own_positions"},
    Unused: {"gradient_reaches_every_weight"},
    LearnedKeys: {"gradient_reaches_every_weight"},
    Apart: {"copies_start_equal"},
    Growing: {"only_buffers_are_enqueued"},
    Forgetful: {"a_resumed_run_goes_on_as_it_would_have"},
    StopsShort: {"goes_through_an_epoch"},
}


@pytest.mark.parametrize("method", BROKEN)
def test_the_law_that_is_broken_is_named(method):
    assert broken_laws("method", method) == BROKEN[method]


def test_every_law_is_broken_once():
    assert set().union(*BROKEN.values()) == names("method")

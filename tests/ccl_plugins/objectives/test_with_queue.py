"""InfoNCE and its relatives with a queue, against a loop over single keys."""

from __future__ import annotations

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch, share

from ccl_plugins.kernels import Linear
from ccl_plugins.objectives import (
    FairInfoNCE,
    HardNegInfoNCE,
    InfoNCE,
    SoftInfoNCE,
    WeaklySupInfoNCE,
)
from ccl_plugins.pairs import Pairs, Queue, Samples

QUEUE_IDS, QUEUE_INDEX = (
    torch.tensor([0, 2, 2, 1, 1, 5, 0]),
    torch.tensor([0, 20, 2, 22, 23, 24, 25]),
)


def pairs_of(x, y, queue, ids):
    """One way, with six of the queue's places filled; two of them are of the batch's own images."""
    unit = [torch.nn.functional.normalize(view, dim=1) for view in (x, y, queue)]
    return Pairs(
        samples=Samples(condition={"condition": ids}, index=torch.arange(7)),
        queue=Queue(unit[2], torch.arange(7) < 6, {"condition": QUEUE_IDS}, index=QUEUE_INDEX),
        anchors=unit[0][None],
        keys=unit[1][None],
        anchor_views=(0,),
        key_views=(1,),
    )


def others(i, y, queue, ids):
    """The keys beside anchor i's own, each with its class."""
    keys = [(y[j], ids[j]) for j in range(7) if j != i]
    return keys + [(queue[k], QUEUE_IDS[k]) for k in range(6) if QUEUE_INDEX[k] != i]


def infonce(x, own, keys, label):
    return share(x, [own], [key for key, _ in keys], 0.3)


def fair(x, own, keys, label):
    return share(x, [own], [key for key, c in keys if c == label], 0.3)


def weaklysup(x, own, keys, label):
    alike = [key for key, c in keys if c == label]
    return share(x, [own, *alike], [key for key, c in keys if c != label], 0.3)


def hardneg(x, own, keys, label):
    near = sorted(
        (key for key, _ in keys), key=lambda key: -float((x @ key / x.norm() / key.norm()).detach())
    )
    return share(x, [own], near[:3], 0.3)


@pytest.mark.parametrize(
    ("objective", "slow"),
    [
        (InfoNCE(0.3), infonce),
        (FairInfoNCE(0.3), fair),
        (WeaklySupInfoNCE(0.3), weaklysup),
        (SoftInfoNCE(Linear(), 0.3), weaklysup),
        (HardNegInfoNCE(0.3, nearest=3), hardneg),
    ],
    ids=["infonce", "fair", "weaklysup", "soft", "hardneg"],
)
def test_a_queue_gives_keys_beside_the_batch_s(objective, slow):
    (x, y, queue), ids = random_batch(views=3)
    rows = range(7)
    if slow is fair:  # an anchor alone in its class does not count
        rows = [i for i in rows if any(c == ids[i] for _, c in others(i, y, queue, ids))]
    values = [slow(x[i], y[i], others(i, y, queue, ids), ids[i]) for i in rows]
    found = objective.loss(pairs_of(x, y, queue, ids))
    assert_same(found, slow_infonce.mean(values), (x, y))


def test_what_is_excluded_from_the_queue_is_no_negative_of_it():
    (x, y, queue), ids = random_batch(views=3)
    objective = InfoNCE(0.3, exclude=(Linear(), 1.0))
    values = []
    for i in range(7):
        rest = [key for key, c in others(i, y, queue, ids) if c != ids[i]]
        values.append(share(x[i], [y[i]], rest, 0.3))
    assert_same(objective.loss(pairs_of(x, y, queue, ids)), slow_infonce.mean(values), (x, y))


@pytest.mark.parametrize("build", [InfoNCE, HardNegInfoNCE])
def test_an_anchor_without_negatives_has_the_value_0_and_does_not_count(build):
    (x, y, queue), ids = random_batch(views=3)
    objective = build(0.3, exclude=(Linear(), -1.0))  # everything is excluded
    pairs = pairs_of(x, y, queue, ids)
    values, weights = objective.terms(objective._prepared(pairs))
    assert values.eq(0).all()
    assert weights.eq(0).all()

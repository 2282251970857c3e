from __future__ import annotations

import pytest
import torch
from lightly.models.modules import MoCoProjectionHead
from support import every_objective as every
from support import sharded
from support.sharded import Small

from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import InfoNCE, NTXent
from ccl_plugins.pairs import Samples


def make(queue_size=12, **settings):
    torch.manual_seed(0)
    sizes = {"hidden": 8, "dim": 4, "queue_size": queue_size, **settings}
    return MoCoV2(**sizes, backbone=Small()).double()


def batch(n=4, views=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(views, n, 3, 4, 4, generator=generator, dtype=torch.float64))


def pairs_of(method, views, index=None, **condition):
    index = torch.arange(len(views[0])) if index is None else index
    return method.pairs(method.embed(views).normalized(), Samples(condition, index))


def fill(method, batches=3, n=4, **condition):
    """Batches of other samples than 0..n-1, until the queue is full."""
    for k in range(1, batches + 1):
        index = torch.arange(k * n, (k + 1) * n)
        rows = {name: z[index] for name, z in condition.items()}
        method.enqueue(pairs_of(method, batch(n, seed=k), index, **rows))


def test_a_query_meets_keys_and_an_empty_queue():
    method = make()
    pairs = pairs_of(method, batch())
    assert pairs.anchors.shape == pairs.keys.shape == (1, 4, 4)
    assert (pairs.anchor_views, pairs.key_views) == ((0,), (1,))
    assert pairs.keys.requires_grad is False
    assert not pairs.queue.valid.any()
    # The batch's other keys stand in for the queue.
    logits = pairs.anchors[0] @ pairs.keys[0].T / 0.1
    expected = (logits.logsumexp(1) - logits.diagonal()).mean()
    torch.testing.assert_close(InfoNCE(temperature=0.1).loss(pairs), expected)


def test_keys_begin_as_queries_and_follow_them_slowly():
    method = make(momentum=0.9)
    pairs = pairs_of(method, [*batch()[:1] * 2])
    torch.testing.assert_close(pairs.keys, pairs.anchors)
    before = [p.clone() for p in method.key_encoder.parameters()]
    now = [*method.backbone.parameters(), *method.head.parameters()]
    with torch.no_grad():
        for p in now:
            p.add_(1)
    method.after_step(0, 10)
    for slow, was, p in zip(method.key_encoder.parameters(), before, now, strict=True):
        torch.testing.assert_close(slow, 0.9 * was + 0.1 * p)
        assert not slow.requires_grad


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("layers", [2, 3])
def test_the_head_is_lightlys(layers, batch_norm):
    theirs = MoCoProjectionHead(16, 8, 4, layers, batch_norm)
    assert repr(make(layers=layers, batch_norm=batch_norm).head.layers) == repr(theirs.layers)


@pytest.mark.parametrize(("name", "number", "least"), [("layers", 1, 2), ("queue_size", 0, 1)])
def test_it_needs_a_head_of_two_layers_and_a_queue(name, number, least):
    with pytest.raises(ValueError, match=f"^{name} must be {least} or more, not {number}$"):
        make(**{name: number})


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [True, False])
def test_images_are_shuffled_between_processes_before_keys_are_computed(
    monkeypatch, world, shuffle
):
    method, (x,) = make(shuffle=shuffle), batch(views=1)
    seen = []

    def exchange(images, distributed):
        assert distributed is True
        return images.flip(0), "order"

    def back(keys, order, distributed):
        assert (order, distributed) == ("order", True)
        return keys.flip(0)

    monkeypatch.setattr("lightly.models.utils.batch_shuffle", exchange)
    monkeypatch.setattr("lightly.models.utils.batch_unshuffle", back)
    monkeypatch.setattr("lightly.utils.dist.world_size", lambda: world)
    method.key_encoder.register_forward_pre_hook(lambda _, images: seen.append(images[0]))
    torch.testing.assert_close(method.key(x), method.key_encoder(x))
    assert torch.equal(seen[0], x.flip(0) if shuffle and world > 1 else x)


def test_keys_of_the_anchors_own_image_are_left_out_of_the_queue():
    method, literal = make(), make(own_in_queue="negative")
    seen = torch.tensor([8, 9, 2, 3])
    for each in (method, literal):
        fill(each)
    pairs = pairs_of(method, batch(), seen)
    logits = pairs.sim_queue(0) / 0.1
    own = seen[:, None] == method.queue.index
    assert own.any(1).tolist() == [True, True, False, False]
    positive = pairs.own_sim(0, 0)[:, None] / 0.1
    for each, keep in ((method, ~own), (literal, torch.ones_like(own))):
        rows = torch.cat([positive, logits.masked_fill(~keep, -torch.inf)], 1)
        expected = (rows.logsumexp(1) - positive[:, 0]).mean()
        found = InfoNCE(temperature=0.1).loss(pairs_of(each, batch(), seen))
        torch.testing.assert_close(found, expected)


def test_symmetric_queries_never_meet_their_own_views_key_as_negative():
    method = make(symmetric=True)
    fill(method)
    pairs = pairs_of(method, batch())
    assert pairs.anchors.shape == pairs.keys.shape == (2, 4, 4)
    values = []
    for i, j in ((0, 1), (1, 0)):
        positive = (pairs.anchors[i] * pairs.keys[j]).sum(1, keepdim=True)
        rows = torch.cat([positive, pairs.anchors[i] @ method.queue.keys.T], 1) / 0.1
        values.append(rows.logsumexp(1) - rows[:, 0])
    expected = torch.stack(values).mean()
    for objective in (InfoNCE(temperature=0.1), NTXent(temperature=0.1)):
        torch.testing.assert_close(objective.loss(pairs), expected)


def test_more_views_give_one_query_more_keys():
    pairs = pairs_of(make(), batch(views=4))
    assert (pairs.anchor_views, pairs.key_views) == ((0,), (1, 2, 3))
    assert pairs.keys.shape == (3, 4, 4)


def test_the_queue_keeps_conditions_and_batch_ones_as_they_were():
    method, table = make(), torch.arange(16) % 3
    fill(method, 2, label=table)
    embedded = method.embed(batch()).normalized()
    condition = {"label": table[:4], "key": embedded.keys}
    pairs = method.pairs(embedded, Samples(condition, torch.arange(4)))
    torch.testing.assert_close(pairs.queue.condition["label"][:8], table[4:12])
    method.enqueue(pairs)
    torch.testing.assert_close(method.queue.condition("key", embedded.keys)[8:], embedded.keys[-1])


def per_view(z, views):
    """Values of two views, as many as are wanted."""
    return z[torch.arange(views) % len(z)]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("filled", [0, 2, 3])
@pytest.mark.parametrize("case", every.representatives(), ids=str)
def test_each_way_of_reading_pairs_learns_from_queries_and_a_queue(case, filled, symmetric):
    views, n = 3, 8
    objective = case.build()
    method = make(24, symmetric=symmetric, dim=16)
    ids, vectors = torch.arange(48) % 3, torch.rand(48, 3, dtype=torch.float64)
    queries = views if symmetric else 1
    condition = case.condition(ids, vectors)

    def rows_of(index):
        return {
            k: per_view(z, queries)[..., index, :] if z.ndim == 3 else z[index]
            for k, z in condition.items()
        }

    for k in range(1, filled + 1):
        index = torch.arange(k * n, (k + 1) * n)
        method.enqueue(pairs_of(method, batch(n, views, k), index, **rows_of(index)))
    embedded = method.embed(batch(n, views))
    embedded = embedded if objective.embedding == "raw" else embedded.normalized()
    loss = objective.loss(
        method.pairs(
            embedded, Samples(rows_of(torch.arange(n)), torch.arange(n), embedded.features)
        )
    )
    assert loss.isfinite()
    loss.backward()
    gradients = [p.grad for p in method.parameters() if p.grad is not None]
    assert all(g.isfinite().all() for g in gradients)
    assert any(g.abs().max() > 0 for g in gradients)


@pytest.mark.parametrize("symmetric", [False, True])
def test_two_ranks_equal_one_process_and_hold_one_queue(two_processes, symmetric):
    expected = sharded.train_moco_v2(symmetric)
    for found in two_processes(sharded.train_moco_v2, symmetric):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_weights_too_narrow_to_move_are_refused():
    method = make().to(torch.bfloat16)
    with pytest.raises(TypeError, match="does not move: keep weights in float32"):
        method.after_step(0, 1)

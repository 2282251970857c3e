from __future__ import annotations

import torch
from support import slow_infonce, slow_loops
from support.slow_infonce import assert_same, random_batch
from torch.nn.functional import normalize

from ccl_plugins.kernels import RBF, Cosine, Linear
from ccl_plugins.objectives import SoftInfoNCE
from ccl_plugins.pairs import Pairs, Queue, Samples


def metadata(b=7, c=3, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(b, c, generator=generator, dtype=torch.float64)


def test_ressl_takes_targets_from_keys_and_a_queue_without_the_own_sample():
    (x, y, queue), _ = random_batch(views=3)
    student, teacher, memory = (
        torch.nn.functional.normalize(view, dim=1) for view in (x, y.detach(), queue.detach())
    )
    pairs = Pairs(
        samples=Samples(condition={"condition": teacher[None]}),
        queue=Queue(memory, torch.ones(7).bool(), {"condition": memory}),
        anchors=student[None],
        keys=teacher[None],
        anchor_views=(0,),
        key_views=(1,),
        batch_candidates=torch.tensor(False),
    )
    values = []
    for i in range(7):
        targets = torch.softmax(memory @ teacher[i] / 0.04, 0)
        logits = torch.log_softmax(memory @ (x[i] / x[i].norm()) / 0.1, 0)
        values.append(-(targets * logits).sum())
    objective = SoftInfoNCE(Cosine(), 0.1, target_temperature=0.04, own=False)
    assert_same(objective.loss(pairs), slow_infonce.mean(values), (x,))


def test_keys_of_the_anchor_s_own_view_are_compared_by_that_view_s_condition():
    (x, y), _ = random_batch()
    z = torch.stack([metadata(), metadata(seed=4)])
    grams, values = [slow_loops.gram("rbf", each) for each in z], []
    for a, k, (mine, theirs) in ((x, y, grams), (y, x, grams[::-1])):
        for i in range(7):
            keys = [(k[j], theirs[i, j]) for j in range(7)]
            keys += [(a[j], mine[i, j]) for j in range(7) if j != i]
            scores = [slow_infonce.score(a[i], key, 0.3) for key, _ in keys]
            shares = [
                t * torch.log(e / sum(scores)) for e, (_, t) in zip(scores, keys, strict=True)
            ]
            values.append(-sum(shares) / sum(t for _, t in keys))
    objective = SoftInfoNCE(RBF(), 0.3, within_view=True)
    assert_same(objective(x, y, condition=tuple(z)), slow_infonce.mean(values), (x, y))


def test_where_queries_alone_have_values_all_keys_are_compared_by_these():
    (x, *keys), _ = random_batch(views=3)
    x, keys = normalize(x, dim=1)[None], normalize(torch.stack(keys), dim=-1)
    z, losses = metadata(), []
    for condition in (z, z[None]):
        pairs = Pairs(x, keys, (0,), (1, 2), samples=Samples(condition={"condition": condition}))
        losses.append(SoftInfoNCE(RBF(), 0.3).loss(pairs))
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
    both, losses = torch.cat([x, keys[:1]]), []
    for condition in (z, torch.stack([z, z])):  # of two views, beside keys of three
        samples = Samples(condition={"condition": condition})
        pairs = Pairs(
            both, torch.cat([both, keys[1:]]).detach(), (0, 1), (0, 1, 2), samples=samples
        )
        losses.append(SoftInfoNCE(RBF(), 0.3, within_view=True).loss(pairs))
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)


def test_similarities_below_0_count_as_0():
    (x, y), _ = random_batch()
    z = metadata()
    targets = slow_loops.gram("cosine", z).clamp_min(0)
    slow = slow_infonce.both(slow_infonce.soft, x, y, targets, 0.3)
    assert_same(SoftInfoNCE(Cosine(), 0.3)(x, y, condition=z), slow, (x, y))


def test_masks_leave_targets_to_positives_and_compare_with_negatives_too():
    (x, y), ids = random_batch()
    z, views = metadata(), [normalize(each, dim=-1) for each in (x, y)]
    alike = ids[:, None] == ids
    unlike = ~alike & (torch.arange(7) != 6)  # the last sample is a negative of none
    own = torch.eye(7, dtype=torch.bool)
    targets = slow_loops.gram("cosine", z).clamp_min(0) * (alike | own)

    def compared(i, j):
        return bool((alike | unlike | own)[i, j])

    slow = slow_infonce.both(slow_infonce.soft, x, y, targets, 0.3, candidates=compared)
    pairs = Pairs.from_masks(torch.stack(views), alike, unlike, Samples({"condition": z}))
    assert_same(SoftInfoNCE(Cosine(), 0.3).loss(pairs), slow, (x, y))


def test_an_anchor_like_no_candidate_does_not_count():
    (x, y), _ = random_batch()
    z = metadata().abs()
    z[2] = 0  # a zero vector is like nothing, itself included
    targets = slow_loops.gram("linear", z)
    rest = [0, 1, 3, 4, 5, 6]
    slow = slow_infonce.both(slow_infonce.soft, x, y, targets, 0.3, anchors=rest)
    assert_same(SoftInfoNCE(Linear(), 0.3)(x, y, condition=z), slow, (x, y))

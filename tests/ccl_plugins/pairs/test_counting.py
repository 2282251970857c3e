"""Which comparisons count, against a loop over anchors and keys that reads the fields one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ccl_plugins.pairs import Pairs, Queue, Samples

N, M, Q, OFFSET = 3, 7, 5, 2
FIELDS = (
    "missing",
    "batch_candidates",
    "positive",
    "negative",
    "queue_index",
    "index",
    "partner",
)
ABSENT = [(), *([name] for name in FIELDS), ("positive", "negative"), FIELDS]


def pairs_of(seed, absent):
    """Anchors of views 0 and 1 among keys of views 1 and 2, with every field but the absent ones."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    ids = torch.randint(3, (M + Q,), generator=generator)
    masks = torch.rand(2, N, M + Q, generator=generator) < 0.6
    pairs = Pairs(
        samples=Samples(
            condition={"class": ids[:M], "vector": normal(2, M, 3)},
            index=torch.arange(M),
            partner=torch.arange(M) + 50,
            missing=torch.tensor([False, True, False, False, True, False, False]),
        ),
        queue=Queue(
            normal(Q, 4),
            torch.tensor([True, True, True, True, False]),
            {"class": ids[M:], "vector": normal(Q, 3)},
            index=torch.tensor([OFFSET, 9, OFFSET + 51, 3, 4]),
        ),
        anchors=normal(2, N, 4),
        keys=normal(2, M, 4),
        anchor_views=(0, 1),
        key_views=(1, 2),
        offset=OFFSET,
        batch_candidates=torch.tensor(seed % 2 > 0),
        positive=masks[0],
        negative=masks[1],
    )
    of_queue = {"index": None} if "queue_index" in absent else {}
    of_samples = dict.fromkeys({"missing", "index", "partner"} & {*absent})
    of_pairs = dict.fromkeys({"batch_candidates", "positive", "negative"} & {*absent})
    return replace(
        pairs,
        samples=replace(pairs.samples, **of_samples),
        queue=replace(pairs.queue, **of_queue),
        **of_pairs,
    )


def without_queue(pairs):
    return replace(pairs, queue=None, batch_candidates=None)


def counts(pairs, i, k, only=None):
    """Whether key sample k of batch and queue counts for anchor sample i."""
    p, given = i + OFFSET, (pairs.positive, pairs.negative)
    if pairs.samples.missing is not None and pairs.samples.missing[p]:
        return False
    if only is not None and not only[i, k]:
        return False
    if all(mask is not None for mask in given) and not any(mask[i, k] for mask in given):
        return False
    if k < M:
        gone = pairs.samples.missing is not None and bool(pairs.samples.missing[k])
        candidates = pairs.batch_candidates is None or bool(pairs.batch_candidates)
        return k != p and not gone and candidates
    if pairs.queue.index is not None and pairs.samples.index is not None:
        images = [
            image[p] for image in (pairs.samples.index, pairs.samples.partner) if image is not None
        ]
        if pairs.queue.index[k - M] in images:
            return False
    return bool(pairs.queue.valid[k - M])


def table(pairs, only=None):
    """Of every anchor and key: (N, M + Q), or (N, M) without a queue."""
    keys = M if pairs.queue is None else M + Q
    return torch.tensor([[counts(pairs, i, k, only) for k in range(keys)] for i in range(N)])


cases = pytest.mark.parametrize(
    ("absent", "queue", "seed"),
    [(absent, queue, seed) for absent in ABSENT for queue in (True, False) for seed in range(2)],
)


@cases
def test_the_samples_that_count_are_those_of_the_fields(absent, queue, seed):
    pairs = pairs_of(seed, absent) if queue else without_queue(pairs_of(seed, absent))
    where = torch.rand(N, M + Q, generator=torch.Generator().manual_seed(seed)) < 0.7
    for only in (None, where):
        expected = table(pairs, only)
        assert torch.equal(pairs.others(only), expected[:, :M])
        assert torch.equal(pairs.counted(only), expected)
        if queue:
            assert torch.equal(pairs.in_queue(only).expand(N, -1), expected[:, M:])
    ids = pairs.samples.condition["class"]
    ids = torch.cat([ids, pairs.queue.condition["class"]]) if queue else ids
    same = ids[OFFSET : OFFSET + N, None] == ids
    positives = table(pairs, same if pairs.positive is None else pairs.positive)
    assert torch.equal(pairs.same_class("class"), positives)
    assert torch.equal(pairs.contrasted(positives), table(pairs, pairs.negative) | positives)


def listed(blocks):
    """By anchor, the inner products of the entries that count, in order."""
    for _, keep in blocks:
        assert keep is None or keep.dtype == torch.bool
    kept = [(x, torch.ones_like(x).bool() if k is None else k.expand_as(x)) for x, k in blocks]
    return [[float(s) for x, k in kept for s in x[a][k[a]]] for a in range(N)]


def drawn_counts(pairs, same_view, a, k, only):
    """Whether the key sample k counts where it is drawn for anchor sample a."""
    if pairs.samples.missing is not None and (
        pairs.samples.missing[a + OFFSET] or pairs.samples.missing[k]
    ):
        return False
    return (only is None or bool(only[a, k])) and not (same_view and k == a + OFFSET)


def expected_negatives(pairs, i, j, within, where):
    """By anchor, the inner products with its negatives, in the order of key views and samples."""
    views = [j, 0] if within and i == 1 else [j]  # anchor view 1 is the first of the keys' views
    given = [mask for mask in (where, pairs.negative) if mask is not None]
    only = torch.stack(given).all(0) if given else None
    rows = []
    for a in range(N):
        found = []
        for v in views:
            if pairs.draws is None:
                kept = [k for k in range(M) if counts(pairs, a, k, only)]
            else:
                same = pairs.anchor_views[i] == pairs.key_views[v]
                kept = [k for k in pairs.draws[a].tolist() if drawn_counts(pairs, same, a, k, only)]
            found += [pairs.keys[v, k] for k in kept]
        if pairs.queue is not None and pairs.draws is None:
            found += [pairs.queue.keys[k] for k in range(Q) if counts(pairs, a, M + k, only)]
        rows.append([float(pairs.anchors[i, a] @ key) for key in found])
    return rows


@cases
@pytest.mark.parametrize("drawn", [False, True])
def test_negatives_are_other_samples_of_two_views_and_the_queue_or_the_draws(
    absent, queue, seed, drawn
):
    pairs = pairs_of(seed, absent) if queue else without_queue(pairs_of(seed, absent))
    generator = torch.Generator().manual_seed(seed)
    where = torch.rand(N, M + Q, generator=generator) < 0.7
    if drawn:
        pairs = replace(pairs, draws=torch.randint(M, (N, 6), generator=generator))
    for i, j, within, only in [
        (0, 0, True, None),
        (0, 1, False, where),
        (1, 1, False, None),
        (1, 1, True, where),
    ]:
        expected = expected_negatives(pairs, i, j, within, only)
        found = listed(pairs.negatives(i, j, within, only))
        torch.testing.assert_close(found, expected)
        contrasted = listed(pairs.contrast(i, j, within, only))
        own = [float(x) for x in pairs.own_sim(i, j)]
        both = [sorted([*row, mine]) for row, mine in zip(expected, own, strict=True)]
        torch.testing.assert_close([sorted(row) for row in contrasted], both)


def test_a_block_in_which_all_count_has_no_mask():
    pairs = without_queue(pairs_of(0, FIELDS))
    ((sims, mask),) = pairs.contrast(0, 1, False)
    assert mask is None
    assert sims is pairs.sim(0, 1)
    assert pairs_of(0, ()).contrast(0, 1, False)[0][1] is not None


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("some", [slice(None, 2), slice(1, 3), slice(-2, None)])
def test_a_part_of_the_anchors_is_compared_as_all_are(some, drawn):
    pairs = pairs_of(1, ())
    features = torch.rand(2, N, 6)
    draws = torch.randint(M, (N, 6), generator=torch.Generator().manual_seed(0)) if drawn else None
    pairs = replace(
        pairs,
        samples=replace(pairs.samples, features=features),
        draws=draws,
        anchors_at_once=2,
        operators={
            0: lambda keys, among=slice(None): pairs.keys[0, keys] * 2 if among == some else None
        },
    )
    part = pairs.part(some)
    assert part.offset == OFFSET + range(N)[some][0]
    assert part.anchors_at_once is None
    assert torch.equal(part.samples.features, features[:, some])
    assert torch.equal(part.own(), pairs.own()[some])
    assert torch.equal(part.counted(), pairs.counted()[some])
    assert torch.equal(part.same_class("class"), pairs.same_class("class")[some])
    assert torch.equal(part.own_sim(1, 0), pairs.own_sim(1, 0)[some])
    assert torch.equal(part.operators[0](slice(0, 3)), pairs.keys[0, :3] * 2)
    for ours, theirs in zip(part.negatives(1, 1, True), pairs.negatives(1, 1, True), strict=True):
        for x, y in zip(ours, theirs, strict=True):
            assert torch.equal(x, y[some])
    bare = replace(without_queue(pairs_of(0, FIELDS)), draws=None).part(some)
    assert (bare.samples.features, bare.draws, bare.positive, bare.negative) == (None,) * 4

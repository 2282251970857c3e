"""ProtoNCE equals loops written from the paper and from its description of the released negatives."""

import functools
import math
from dataclasses import replace

import pytest
import torch
from ccl_plugins.conditions import Clusters
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.pairs import Pairs, Queue, Samples, with_keys
from ccl_plugins.testing import equals, on_two_ranks
from ccl_plugins.testing.objective_batches import on_each_rank, raw_batch
from torch.nn.functional import normalize

from ccl_prototypes import ProtoNCE
from ccl_prototypes.concentration import concentration


def table(k, warmup=0):
    """Clusters of 40 points, as training finds them."""
    torch.manual_seed(0)
    points = normalize(torch.randn(40, 4), dim=1)
    fitted = Clusters(k, warmup=warmup).fit(points, lambda: points, None)
    extras = {name: x.double() if x.is_floating_point() else x for name, x in fitted.extras.items()}
    return points, fitted.values, {f"condition/{name}": x for name, x in extras.items()}


def slow_phi(points, ids, centroids, alpha, temperature):
    """Eq. (12), and what the paper leaves open."""
    phi = []
    for cluster, center in enumerate(centroids):
        members = [p for p, each in zip(points, ids.tolist(), strict=True) if each == cluster]
        total = sum(float((p - center).norm()) for p in members)
        z = len(members)
        phi.append(total / (z * math.log(z + alpha)) if z > 1 else None)
    largest = max(each for each in phi if each is not None)
    phi = torch.tensor([largest if each is None else each for each in phi], dtype=torch.float64)
    in_order = phi.sort().values

    def percentile(q):
        place = q * (len(phi) - 1)
        low = int(place)
        above = in_order[min(low + 1, len(phi) - 1)]
        return in_order[low] + (place - low) * (above - in_order[low])

    phi = phi.clamp(percentile(0.1), percentile(0.9))
    return temperature * phi / phi.mean()


def found_phi(extras, k, temperature, alpha=10.0):
    distances, sizes = (extras[f"condition/{name}_{k}"] for name in ("distances", "sizes"))
    return concentration(distances, sizes, alpha, temperature)


def levels_of(extras, numbers, temperature):
    """Centroids and φ of each clustering."""
    return [
        (extras[f"condition/centroids_{k}"], found_phi(extras, k, temperature)) for k in numbers
    ]


def slow_info(v, own, others, t):
    """-log of the share of the own key among it and the others."""
    below = torch.exp(v @ own / t) + sum(torch.exp(v @ other / t) for other in others)
    return -torch.log(torch.exp(v @ own / t) / below)


def slow_proto(v, own, negatives, centroids, phi):
    """-log of the share of the own prototype among it and the negative ones, given by cluster id."""

    def share(j):
        return torch.exp(v @ (centroids[j] / centroids[j].norm()) / phi[j])

    below = share(own) + sum(share(j) for j in negatives)
    return -torch.log(share(own) / below)


def slow(views, ids, levels, t, weight, negatives):
    """Eq. (11) over all pairs of views; ``negatives(m, i)``: the cluster ids in clustering m."""
    views = [normalize(view, dim=1) for view in views]
    total, terms = 0.0, 0
    for a, v in enumerate(views):
        for b, w in enumerate(views):
            if a == b:
                continue
            for i in range(len(v)):
                others = [w[j] for j in range(len(w)) if j != i]
                total = total + slow_info(v[i], w[i], others, t)
                for m, (centroids, phi) in enumerate(levels):
                    found = slow_proto(v[i], int(ids[i, m]), negatives(m, i), centroids, phi)
                    total = total + weight * found / len(levels)
                terms += 1
    return total / terms


def test_concentration_is_the_loop_it_was_written_from():
    points, ids, extras = table([5, 24])  # of 24 clusters of 40 points many have one
    for column, k in enumerate((5, 24)):
        centroids = extras[f"condition/centroids_{k}"]
        expected = slow_phi(points.double(), ids[:, column], centroids, 10.0, 0.2)
        # Distances are float32.
        torch.testing.assert_close(found_phi(extras, k, 0.2), expected, rtol=1e-6, atol=0)


def test_clusters_that_are_points_all_have_the_temperature():
    found = concentration(torch.zeros(3), torch.tensor([1, 5, 0]), 10.0, 0.2)
    torch.testing.assert_close(found, torch.full((3,), 0.2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("count", [2, 3])
def test_it_is_the_loop_it_was_written_from(count, dtype):
    _, ids, extras = table([5, 24])
    ids, levels = ids[:7], levels_of(extras, (5, 24), 0.2)
    views = tuple(torch.randn(count, 7, 4, generator=torch.Generator().manual_seed(1)).to(dtype))
    objective = ProtoNCE([5, 24], 0.2, weight=0.7)

    def negatives(m, i):
        return [j for j in range((5, 24)[m]) if j != ids[i, m]]

    equals(
        lambda *views: objective(*views, condition=ids, extras=extras),
        lambda *views: slow([view.double() for view in views], ids, levels, 0.2, 0.7, negatives).to(
            dtype
        ),
        views,
        tolerance=1e-9 if dtype == torch.float64 else 2e-5,
    )


def test_drawn_negatives_are_the_same_prototypes_for_all_anchors():
    _, ids, extras = table([5, 24])
    ids, levels = ids[:7], levels_of(extras, (5, 24), 0.2)
    views = tuple(torch.randn(2, 7, 4, dtype=torch.float64))
    objective = ProtoNCE([5, 24], 0.2, negatives=3)

    def found(*views):
        torch.manual_seed(5)
        return objective(*views, condition=ids, extras=extras)

    torch.manual_seed(5)
    drawn = [torch.rand(k).topk(3).indices.tolist() for k in (5, 24)]
    assert any(int(ids[i, m]) in drawn[m] for i in range(7) for m in range(2)), (
        "own ones are left out"
    )

    def expected(*views):
        return slow(
            views, ids, levels, 0.2, 1.0, lambda m, i: [j for j in drawn[m] if j != ids[i, m]]
        )

    equals(found, expected, views, tolerance=1e-9)


def test_released_negatives_are_those_of_the_batch_and_of_prototypes_outside_it():
    _, ids, extras = table([24, 30])
    ids, levels = ids[:7], levels_of(extras, (24, 30), 0.2)
    ids[1] = ids[0]  # a false negative, which the released code keeps
    views = tuple(torch.randn(2, 7, 4, dtype=torch.float64))
    objective = ProtoNCE([24, 30], 0.2, negatives=30, form="released")

    def negatives(m, i):
        batch = ids[:, m].tolist()
        return [j for n, j in enumerate(batch) if n != i] + [
            j for j in range((24, 30)[m]) if j not in batch
        ]

    equals(
        lambda *views: objective(*views, condition=ids, extras=extras),
        lambda *views: slow(views, ids, levels, 0.2, 1.0, negatives),
        views,
        tolerance=1e-9,
    )
    fewer = ProtoNCE([24, 30], 0.2, negatives=3, form="released")
    assert fewer(*views, condition=ids, extras=extras) < objective(
        *views, condition=ids, extras=extras
    )


def test_in_mocos_form_queries_meet_keys_the_queue_and_prototypes():
    _, ids, extras = table([5, 24])
    ids, levels = ids[:7], levels_of(extras, (5, 24), 0.2)
    keys = normalize(torch.randn(1, 7, 4, dtype=torch.float64), dim=2)
    queue = normalize(torch.randn(9, 4, dtype=torch.float64), dim=1)
    objective = ProtoNCE([5, 24], 0.2)

    def found(queries):
        pairs = with_keys(
            normalize(queries, dim=1)[None],
            keys,
            Samples({"condition": ids}, extras=extras),
            first_key_view=1,
        )
        held = {"condition": ids[torch.arange(9) % 7]}
        held = Queue(queue, torch.ones(9, dtype=torch.bool), held)
        return objective.loss(replace(pairs, queue=held, batch_candidates=torch.tensor(False)))

    def expected(queries):
        total = 0.0
        for i, v in enumerate(normalize(queries, dim=1)):
            total = total + slow_info(v, keys[0, i], queue, 0.2)
            for m, (centroids, phi) in enumerate(levels):
                negatives = [j for j in range((5, 24)[m]) if j != ids[i, m]]
                total = total + slow_proto(v, int(ids[i, m]), negatives, centroids, phi) / 2
        return total / 7

    equals(found, expected, (torch.randn(7, 4, dtype=torch.float64),), tolerance=1e-9)


def build_with_seed(form, negatives):
    """On each process another seed: the first process draws for all."""
    from lightly.utils import dist

    torch.manual_seed(3 + dist.rank())
    return ProtoNCE(8, negatives=negatives, form=form)


@pytest.mark.parametrize(("form", "negatives"), [("paper", 4), ("released", 3)])
def test_two_processes_contrast_with_the_same_drawn_prototypes(form, negatives):
    build = functools.partial(build_with_seed, form, negatives)
    batch = raw_batch(ProtoNCE(8))
    expected = on_each_rank(build, batch)
    for found in on_two_ranks(on_each_rank, build, batch):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_as_many_drawn_negatives_as_there_are_prototypes_are_all():
    _, ids, extras = table(6)
    x, y = torch.randn(2, 8, 4, dtype=torch.float64)
    given = {"condition": ids[:8], "extras": extras}
    every = ProtoNCE(6)(x, y, **given)
    torch.testing.assert_close(ProtoNCE(6, negatives=6)(x, y, **given), every)
    torch.testing.assert_close(ProtoNCE(6, negatives=99)(x, y, **given), every)
    assert ProtoNCE(6, negatives=2)(x, y, **given) < every


def test_before_there_are_centroids_it_is_infonce():
    _, ids, extras = table(6, warmup=1)
    x, y = torch.randn(2, 8, 4)
    found = ProtoNCE(6)(x, y, condition=ids[:8], extras=extras)
    torch.testing.assert_close(found, InfoNCE(0.2)(x, y))


def test_an_anchor_without_negatives_is_still_attracted_to_its_prototype():
    _, ids, extras = table(6)
    x = normalize(torch.randn(2, 8, 4, dtype=torch.float64), dim=2)
    none = torch.zeros(8, 8, dtype=torch.bool)
    pairs = Pairs.from_masks(x, none, none, Samples({"condition": ids[:8]}, extras=extras))
    ((centroids, phi),) = levels_of(extras, (6,), 0.2)
    expected = [
        slow_proto(v, int(ids[i]), [j for j in range(6) if j != ids[i]], centroids, phi)
        for view in x
        for i, v in enumerate(view)
    ]
    torch.testing.assert_close(ProtoNCE(6, 0.2).loss(pairs), sum(expected) / 16)


def test_masks_of_a_user_change_the_negatives_of_infonce_alone():
    _, ids, extras = table(6)
    x = normalize(torch.randn(2, 8, 4, dtype=torch.float64), dim=2)
    none = torch.zeros(8, 8, dtype=torch.bool)
    some = torch.rand(8, 8) > 0.5
    objective = ProtoNCE(6)

    def losses(negatives):
        pairs = Pairs.from_masks(x, none, negatives, Samples({"condition": ids[:8]}))
        pairs = replace(pairs, samples=replace(pairs.samples, extras=extras))
        return objective.loss(pairs) - InfoNCE(0.2).loss(pairs)

    torch.testing.assert_close(losses(some), losses(~none))


def test_what_does_not_go_together_is_said():
    _, ids, extras = table([5, 6])
    x, y = torch.randn(2, 8, 4)
    with pytest.raises(ValueError, match=r"which has none: use clusters\(k=\[6\]\)"):
        ProtoNCE(6)(x, y, condition=ids[:8, 1])
    with pytest.raises(ValueError, match=r"k=\[7\].*give both the same k"):
        ProtoNCE(7)(x, y, condition=ids[:8], extras=extras)
    with pytest.raises(ValueError, match=r"needs 1 clusterings, and 'condition' has 2 columns"):
        ProtoNCE(6)(x, y, condition=ids[:8], extras=extras)
    with pytest.raises(ValueError, match=r"have 4 columns and embeddings 3: prototypes are"):
        ProtoNCE([5, 6])(x[:, :3], y[:, :3], condition=ids[:8], extras=extras)
    for wrong in (
        {"k": 1},
        {"k": []},
        {"k": [4, 4]},
        {"k": 4, "weight": -1.0},
        {"k": 4, "negatives": 0},
    ):
        with pytest.raises(ValueError, match="must be"):
            ProtoNCE(**wrong)
    with pytest.raises(ValueError, match="form must be one of 'paper', 'released'"):
        ProtoNCE(4, form="moco")

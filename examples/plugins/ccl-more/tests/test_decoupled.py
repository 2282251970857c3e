"""DCL and DHEL are the loops that their papers' equations spell out, with and without a kernel."""

from dataclasses import replace

import pytest
import torch
from ccl_plugins.kernels import RBF, Delta, Product
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch, with_keys
from ccl_plugins.testing import equals
from lightly.loss import DCLLoss
from torch.nn.functional import normalize

from ccl_more import DCL, DHEL

Z = torch.randn(10, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
LABEL = torch.tensor([0, 1, 0, 0, 1, 1, 2, 0, 1, 2])  # the class 2 is alone in the batch
TAU = 0.3


def slow(views, own_view, other_view, queue=(), similarity=None, symmetric=True):
    """One anchor and one key at a time; ``similarity`` is a function of two samples' positions."""
    unit, n, losses = [normalize(view, dim=1) for view in views], len(views[0]), []
    for a, x in enumerate(unit):
        for b, y in enumerate(unit):
            if a == b or (a > b and not symmetric):
                continue
            for i in range(n):
                repelled = [(x[j], j) for j in range(n) if j != i and own_view]
                repelled += [(y[j], j) for j in range(n) if j != i and other_view]
                repelled += [(key, n + j) for j, key in enumerate(queue)]
                weights = [1.0 if similarity is None else similarity(i, j) for _, j in repelled]
                if not any(weight > 0 for weight in weights):
                    continue
                total = sum(
                    weight * (x[i] @ key / TAU).exp()
                    for weight, (key, _) in zip(weights, repelled, strict=True)
                    if weight > 0
                )
                losses.append(total.log() - x[i] @ y[i] / TAU)
    return sum(losses) / len(losses)


WAYS = [
    (DCL(TAU), True, True),
    (DCL(TAU, within_view=False), False, True),
    (DHEL(TAU), True, False),
]
WAYS_IDS = ["dcl", "dcl across views", "dhel"]
ways = pytest.mark.parametrize(("objective", "own", "other"), WAYS, ids=WAYS_IDS)


@ways
def test_the_positive_is_not_in_the_denominator(views, agree, objective, own, other):
    agree(objective, lambda *views: slow(views, own, other), views)


@ways
def test_a_queue_repels(views, agree, queued, queue, objective, own, other):
    def loop(*views):
        return slow(views, own, other, queue[:2])

    agree(objective, loop, views, call=queued)


def similarity_of(kernel, z):
    gram = kernel(z, z)
    return lambda i, j: float(gram[i, j])


@pytest.mark.parametrize(
    ("kernel", "z"), [(RBF(scale=2.0), Z), (Delta(), LABEL)], ids=["rbf", "delta"]
)
@ways
def test_samples_repel_in_proportion_to_the_similarity_of_their_conditions(
    views, agree, queued, queue, objective, own, other, kernel, z
):
    way = {"within_view": objective.within_view} if type(objective) is DCL else {}
    conditional = type(objective)(TAU, kernel=kernel, **way)
    similarity = similarity_of(kernel, z)

    def loop(*views):
        return slow(views, own, other, similarity=similarity)

    agree(conditional, loop, views, condition=z[:7])

    def loop_with_queue(*views):
        return slow(views, own, other, queue[:2], similarity)

    def call(module, *views):
        return queued(module, *views, condition=z)

    agree(conditional, loop_with_queue, views, call=call)


@ways
def test_one_way_only_earlier_views_are_anchors(views, objective, own, other):
    way = {"within_view": objective.within_view} if type(objective) is DCL else {}
    directed = type(objective)(TAU, symmetric=False, **way)
    equals(directed, lambda *v: slow(v, own, other, symmetric=False), views, tolerance=1e-9)


def test_dcl_is_lightlys(views):
    equals(DCL(TAU), DCLLoss(temperature=TAU), views[:2], tolerance=1e-9)


def test_dhel_is_the_authors_loss_of_anchors_and_their_positives(views):
    """In their code, the first half are anchors and the second half their positives."""

    def released(x, y):
        x, y = normalize(x, dim=1), normalize(y, dim=1)
        energy = ((x @ x.T / TAU).exp() * (1 - torch.eye(len(x)))).sum(1)
        return -((x * y).sum(1).div(TAU).exp() / energy).log().mean()

    equals(DHEL(TAU, symmetric=False), released, views[:2], tolerance=1e-9)


def test_classes_do_not_repel_each_other(views):
    """With ``delta``, samples of another class have no influence on an anchor."""
    objective = DCL(TAU, kernel=Delta())
    unit = normalize(torch.stack(views), dim=-1)
    values, weights = objective.terms(in_batch(unit, Samples({"condition": LABEL[:7]})))
    moved = unit.clone()
    moved[:, [1, 4, 5, 6]] = -moved[:, [1, 4, 5, 6]]
    others, _ = objective.terms(in_batch(moved, Samples({"condition": LABEL[:7]})))
    torch.testing.assert_close(values[:, [0, 2, 3]], others[:, [0, 2, 3]])
    assert (weights[:, 6] == 0).all()  # alone in its class
    assert (weights[:, :6] == 1).all()


def test_masks_say_who_repels(views):
    unit = normalize(torch.stack(views), dim=-1)
    positives = LABEL[:7, None] == LABEL[:7]
    pairs = Pairs.from_masks(unit, positives)

    def similarity(i, j):
        return float(LABEL[i] != LABEL[j])

    torch.testing.assert_close(DCL(TAU).loss(pairs), slow(views, True, True, similarity=similarity))


def test_dhel_needs_keys_of_the_anchors_own_view_or_a_queue(views, queue):
    unit = normalize(torch.stack(views), dim=-1)
    pairs = with_keys(unit[:1], unit[1:2], first_key_view=1)
    with pytest.raises(ValueError, match="DHEL needs keys of the anchor's own view, or a queue"):
        DHEL().loss(pairs)
    pairs = replace(pairs, queue=Queue(queue, torch.ones(3).bool()))
    energy = (unit[0] @ queue.T / TAU).exp().sum(1).log()
    expected = (energy - (unit[0] * unit[1]).sum(1) / TAU).mean()
    torch.testing.assert_close(DHEL(TAU).loss(pairs), expected)


@pytest.mark.parametrize("objective", [DCL, DHEL])
def test_a_kernel_of_two_conditions_weighs_by_both(views, objective):
    """Only samples of the anchor's label repel, in proportion to the similarity of their values."""
    kernel = Product(on={"label": Delta(), "size": RBF(scale=2.0)})
    gram = RBF(scale=2.0)(Z, Z) * (LABEL[:, None] == LABEL)
    found = objective(TAU, kernel=kernel)(*views, condition={"label": LABEL[:7], "size": Z[:7]})
    expected = slow(views, True, objective is DCL, similarity=lambda i, j: float(gram[i, j]))
    torch.testing.assert_close(found, expected)


@ways
def test_excluded_samples_do_not_repel(views, objective, own, other):
    way = {"within_view": objective.within_view} if type(objective) is DCL else {}
    without = type(objective)(TAU, exclude=(Delta(), 0.5), **way)
    found = without(*views, condition=LABEL[:7])
    expected = slow(views, own, other, similarity=lambda i, j: float(LABEL[i] != LABEL[j]))
    torch.testing.assert_close(found, expected)

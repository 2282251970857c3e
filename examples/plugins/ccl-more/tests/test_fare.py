"""FARE and SparseFARE are the loops that the paper's equations spell out."""

import math

import pytest
import torch
from ccl_plugins.pairs import Pairs, Samples, in_batch
from ccl_plugins.protocols import Sizes, Table
from ccl_plugins.testing import equals
from torch.nn.functional import normalize

from ccl_more import FARE

Z = torch.randn(10, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
TAU, RHO = 0.3, 0.7


def build(**params):
    torch.manual_seed(0)
    return FARE(TAU, rho=RHO, width=4, columns=3, **params).double()


def slow(objective, views, queue=(), queries=None, keys=None):
    """Equations (12) and (13), one anchor at a time."""
    queries = objective.queries.detach().double() if queries is None else queries
    keys = objective.keys.detach().double() if keys is None else keys
    unit, n, losses = [normalize(view, dim=1) for view in views], len(views[0]), []

    def bucket(j):
        hashes = [float(Z[j] @ column) for column in objective.planes.double().T]
        return max(range(2 * len(hashes)), key=lambda k: (hashes + [-h for h in hashes])[k])

    for a, x in enumerate(unit):
        for b, y in enumerate(unit):
            for i in range(n if a != b else 0):
                attended = [(y[j], j) for j in range(n) if j != i or objective.own]
                attended += [(key, n + j) for j, key in enumerate(queue)]
                if objective.buckets is not None:
                    attended = [(key, j) for key, j in attended if bucket(j) == bucket(i)]
                if not any(j != i for _, j in attended):
                    continue
                attention = [((Z[i] @ queries) @ (Z[j] @ keys) / RHO).exp() for _, j in attended]
                negative = sum(
                    p / sum(attention) * (x[i] @ key / TAU).exp()
                    for p, (key, _) in zip(attention, attended, strict=True)
                )
                own = (x[i] @ y[i] / TAU).exp()
                losses.append(-(own / (own + objective.o * negative)).log())
    return sum(losses) / len(losses)


SETTINGS = pytest.mark.parametrize(
    "params", [{}, {"own": False, "o": 6.0}, {"buckets": 4}, {"buckets": 4, "own": False}], ids=str
)


@SETTINGS
def test_fare_is_the_papers_attention(views, agree, params):
    objective = build(**params)
    agree(objective, lambda *views: slow(objective, views), views, condition=Z[:7])


@SETTINGS
def test_fare_attends_to_a_queue(views, agree, queued, queue, params):
    objective = build(**params)
    agree(
        objective,
        lambda *views: slow(objective, views, queue[:2]),
        views,
        call=lambda module, *views: queued(module, *views, condition=Z),
    )


def test_the_attention_learns_by_the_same_loss(views):
    objective = build()

    def found(queries, keys, *views):
        parameters = {"queries": queries, "keys": keys}
        return torch.func.functional_call(objective, parameters, views, {"condition": Z[:7]})

    start = [p.detach() for p in (objective.queries, objective.keys)]
    equals(
        found,
        lambda queries, keys, *views: slow(objective, views, (), queries, keys),
        (*start, *views),
        tolerance=1e-9,
    )


def test_without_attention_negatives_count_as_their_mean(views):
    objective = build(own=False)
    with torch.no_grad():
        objective.queries.zero_()
    unit = [normalize(view, dim=1) for view in views]
    terms = []
    for a, x in enumerate(unit):
        for b, y in enumerate(unit):
            if a != b:
                scores = (x @ y.T / TAU).exp()
                mean = (scores.sum(1) - scores.diagonal()) / 6
                terms.append((1 + mean / scores.diagonal()).log().mean())
    expected = sum(terms) / len(terms)
    torch.testing.assert_close(objective(*views, condition=Z[:7]), expected)


def test_sparse_fare_gives_other_buckets_no_weight(views):
    objective = build(buckets=2)
    with torch.no_grad():
        objective.planes.copy_(torch.tensor([[1.0], [0.0], [0.0]]))  # the sign of the first column
    z = Z[:7].clone()
    z[:, 0] = torch.tensor([1.0, 1, 1, -1, -1, -1, -1])
    log_p, some = objective.attention(
        in_batch(normalize(torch.stack(views), dim=-1), Samples({"condition": z}))
    )
    weights = log_p.exp()
    assert (weights[:3, 3:] == 0).all()
    assert (weights[3:, :3] == 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(7).double())
    assert some.all()


def test_an_anchor_alone_in_its_bucket_gets_weight_0(views):
    objective = build(buckets=2, own=False)
    with torch.no_grad():
        objective.planes.copy_(torch.tensor([[1.0], [0.0], [0.0]]))
    z = Z[:7].clone()
    z[:, 0] = torch.tensor([1.0, -1, -1, -1, -1, -1, -1])
    values, weights = objective.terms(
        in_batch(normalize(torch.stack(views), dim=-1), Samples({"condition": z}))
    )
    assert (weights[:, 0] == 0).all()
    assert (weights[:, 1:] == 1).all()
    assert values.isfinite().all()


def test_masks_restrict_the_negatives(views):
    objective, positives = build(own=False), torch.eye(7).bool().roll(1, 1)
    pairs = Pairs.from_masks(
        normalize(torch.stack(views), dim=-1), positives, samples=Samples({"condition": Z[:7]})
    )
    log_p, _ = objective.attention(pairs)
    assert (log_p.exp() > 0).equal(~positives & ~torch.eye(7).bool())


def test_the_attention_has_the_tables_width_and_keeps_it_in_a_checkpoint():
    objective = FARE(buckets=4)
    with pytest.raises(
        ValueError, match="condition has 3 columns, and the attention none yet: give columns=3"
    ):
        objective(*torch.randn(2, 7, 5), condition=Z[:7])
    with pytest.raises(
        ValueError, match="condition has unknown columns, and the attention none yet"
    ):
        objective.setup({}, Sizes(10, 5, 5, 1))
    objective.setup({"condition": Table(Z)}, Sizes(10, 5, 5, 1))
    assert objective.queries.shape == objective.keys.shape == (3, 32)
    assert objective.rho == math.sqrt(32)
    loaded = FARE(buckets=4)
    loaded.load_state_dict(objective.state_dict())
    x, y = torch.randn(2, 7, 5)
    given = {"condition": Z[:7].float()}
    torch.testing.assert_close(loaded(x, y, **given), objective(x, y, **given), rtol=0, atol=0)
    with pytest.raises(ValueError, match="condition has 2 columns, and the attention 3"):
        loaded(x, y, condition=Z[:7, :2])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"buckets": 3}, "buckets must be even, not 3"),
        ({"buckets": 0}, "buckets must be 2 or more, not 0"),
        ({"o": 0}, "o must be a finite number above 0, not 0"),
        ({"width": 0}, "width must be 1 or more, not 0"),
        ({"rho": 0}, "rho must be a finite number above 0, not 0"),
    ],
)
def test_settings_out_of_range_are_refused(params, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        FARE(**params)


def test_values_that_differ_per_view_are_those_of_the_anchors_view(views):
    objective = build()
    z = torch.stack([Z[:7], *[Z[3:]] * (len(views) - 1)])
    unit = normalize(torch.stack(views), dim=-1)
    values, _ = objective.terms(in_batch(unit, Samples({"condition": z})))
    first, _ = objective.terms(in_batch(unit, Samples({"condition": Z[:7]})))
    other, _ = objective.terms(in_batch(unit, Samples({"condition": Z[3:]})))
    k = len(views) - 1
    torch.testing.assert_close(values, torch.cat([first[:k], other[k:]]))

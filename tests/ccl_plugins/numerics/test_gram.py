"""Gram statistics that follow a queue, against those of the queue as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

import ccl_plugins as ccl
from ccl_plugins.kernels import Cosine, Linear, Polynomial, Product, Sum
from ccl_plugins.numerics import gram
from ccl_plugins.numerics.conditional_operator import conditional_columns, conditional_operator
from ccl_plugins.numerics.gram import ExactFeatures, RunningGram, gram_of
from ccl_plugins.objectives import FairCCLK, InfoNCE, Mixture
from ccl_plugins.pairs import Pairs, Queue, Samples

KERNELS = [
    Cosine(),
    Linear(2.0),
    Polynomial(degree=2, coef0=0.5),
    Sum([Linear(), Cosine()]),
    Product([Linear()]),
]


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.manual_seed(sum(shape)))


def running(kernel, values):
    features = ExactFeatures(kernel)
    return RunningGram(features, features(values[:1]).shape[1])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_following_a_queue_that_wraps_equals_summing_over_it(kernel):
    queue, valid = torch.full((40, 3), torch.nan).double(), torch.zeros(40).bool()
    statistics = running(kernel, normal(1, 3))
    for step in range(25):
        places = torch.arange(8 * step, 8 * step + 8) % 40
        new = normal(8, 3) * (1 + step % 3)
        statistics.replace(queue[places], valid[places], new)
        queue[places], valid[places] = new, True
    followed = statistics.gram.clone()
    statistics.rebuild(queue, valid)
    bound = 1e-12 * float(statistics.gram.abs().max())
    torch.testing.assert_close(followed, statistics.gram, rtol=1e-12, atol=bound)
    phi = kernel.features(queue)
    torch.testing.assert_close(statistics.gram, phi.T @ phi, rtol=1e-12, atol=1e-12)


def test_places_that_are_not_filled_count_nothing_whatever_they_hold():
    queue, valid = normal(12, 3), torch.arange(12) < 5
    statistics = running(Linear(), normal(1, 3))
    statistics.rebuild(queue, valid)
    phi = Linear().features(queue[:5])
    torch.testing.assert_close(statistics.gram, phi.T @ phi, rtol=1e-12, atol=1e-12)
    statistics.replace(queue[4:8], valid[4:8], normal(4, 3))
    phi = Linear().features(torch.cat([queue[:4], normal(4, 3)]))
    torch.testing.assert_close(statistics.gram, phi.T @ phi, rtol=1e-12, atol=1e-12)


def test_sums_stay_in_float64_and_are_saved():
    statistics = running(Cosine(), normal(1, 3))
    statistics.rebuild(normal(10, 3), torch.ones(10).bool())
    kept = statistics.gram.clone()
    assert torch.equal(statistics.half().gram, kept)
    again = running(Cosine(), normal(1, 3))
    again.load_state_dict(statistics.state_dict())
    assert torch.equal(again.gram, kept)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_operator_is_the_same_in_parts_and_with_the_queues_gram(kernel):
    batch, queue = normal(12, 3), normal(50, 3)
    valid = torch.arange(62) < 40
    queue[28:] = torch.nan
    options = {"rows": slice(2, 9), "valid": valid, "dtype": torch.float64}
    whole = conditional_operator(kernel, torch.cat([batch, queue]), 0.1, **options)
    gram = gram_of(ExactFeatures(kernel), queue, valid[12:])
    for known in (None, gram):
        columns = conditional_columns(kernel, batch, 0.1, queue=queue, gram=known, **options)
        for some in (slice(None), slice(0, 12), slice(12, 62), slice(5, 30)):
            torch.testing.assert_close(columns(some), whole[:, some], rtol=1e-9, atol=1e-12)


def test_the_queues_products_in_float32_cost_rounding():
    batch, queue = normal(32, 16), normal(2000, 16)
    exact = conditional_operator(Cosine(), torch.cat([batch, queue]), 0.01, slice(0, 32))
    columns = conditional_columns(Cosine(), batch.float(), 0.01, queue=queue.float())
    bound = 6e-8 * (exact.diagonal().max() / 0.01).sqrt()
    torch.testing.assert_close(columns(slice(None)).double(), exact, rtol=0, atol=2 * float(bound))


@pytest.mark.parametrize("name", ["fair_cclk", "weaklysup_cclk"])
@pytest.mark.parametrize("kernel", ["cosine", "linear"])
def test_a_loss_is_the_same_with_the_queues_gram(name, kernel):
    anchors, keys = normalize(normal(2, 12, 8), dim=-1), normalize(normal(90, 8), dim=-1)
    z, objective = normal(102, 5), ccl.create("objective", name, kernel=kernel)
    valid = torch.arange(90) < 70
    pairs = {
        "anchors": anchors.requires_grad_(),
        "keys": anchors,
        "anchor_views": (0, 1),
        "key_views": (0, 1),
        "samples": Samples({"condition": z[:12]}),
    }
    queue = Queue(keys, valid, {"condition": z[12:]})
    ((key, (on, features)),) = objective.statistics().items()
    assert on == "condition"
    without = objective.loss(Pairs(**pairs, queue=queue))
    held = replace(queue, grams={key: gram_of(features, z[12:], valid)})
    known = objective.loss(Pairs(**pairs, queue=held))
    torch.testing.assert_close(known, without, rtol=1e-9, atol=1e-9)
    held = replace(queue, grams={key: torch.eye(5).double()})
    wrong = objective.loss(Pairs(**pairs, queue=held))
    assert (wrong - without).abs() > 1e-6


def test_statistics_are_offered_where_there_are_features_to_make_them_of():
    assert not ccl.create("objective", "fair_cclk", kernel="rbf").statistics()
    assert not ccl.create("objective", "fair_cclk", kernel="linear", form="released").statistics()


class Stretched(Linear):
    """A kernel that prints as every other one of its class."""

    def __repr__(self):
        return "Stretched()"


def nested(*scales):
    fair = [FairCCLK(Stretched(scale)) for scale in scales]
    return Mixture([fair[0], Mixture({"0": fair[1], "plain": InfoNCE()})])


def test_objectives_share_no_statistics_even_if_their_kernels_print_alike():
    names = [*nested(1.0, 2.0).statistics()]
    assert len(names) == 2
    z = normal(30, 5)
    grams = [gram_of(of.features, z) for of in nested(1.0, 2.0).statistics().values()]
    torch.testing.assert_close(grams[0], 2 * grams[1])
    assert [*nested(3.0, 4.0).statistics()] == names, "another process finds them by these names"


def test_values_that_are_missing_or_not_valid_are_left_out():
    values, valid = normal(6, 3), torch.tensor([True, True, False, True, False, True])
    values[3] = torch.nan
    values[4, 1] = torch.nan
    kept = values[[0, 1, 5]]
    torch.testing.assert_close(gram_of(ExactFeatures(Linear()), values, valid), kept.T @ kept)
    every = values[[0, 1, 2, 5]]
    torch.testing.assert_close(gram_of(ExactFeatures(Linear()), values), every.T @ every)


def test_sums_are_the_same_block_by_block(monkeypatch):
    expected = gram_of(ExactFeatures(Linear()), normal(10, 3), torch.arange(10) != 4)
    monkeypatch.setattr(
        gram, "blocks", lambda length, *_: (slice(a, a + 3) for a in range(0, length, 3))
    )
    found = gram_of(ExactFeatures(Linear()), normal(10, 3), torch.arange(10) != 4)
    torch.testing.assert_close(found, expected)


def test_features_with_weights_of_their_own_are_cast_and_the_sums_are_not():
    statistics = RunningGram(torch.nn.Linear(3, 4), 4)
    statistics._apply(torch.Tensor.half, recurse=False)
    assert statistics.features.weight.dtype == torch.float32
    assert statistics.half().features.weight.dtype == torch.float16
    assert statistics.gram.dtype == torch.float64

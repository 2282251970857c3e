"""Shares of classes that are given."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.samplers import Weighted
from ccl_plugins.samplers.weighted import apportioned

IDS = torch.tensor([0] * 60 + [3] * 30 + [7] * 10)


def sampler(weights=None, batch_size=20, condition=IDS, **more):
    return Weighted(
        weights, size=len(condition), batch_size=batch_size, seed=0, condition=condition, **more
    )


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        (None, [34, 33, 33]),
        ([1, 1, 2], [25, 25, 50]),
        ([6, 3, 1], [60, 30, 10]),
        ([1, 2, 1e-9], [33, 67, 0]),
    ],
)
def test_an_epoch_has_the_shares(weights, shares):
    seen = torch.cat(list(sampler(weights).batches(0)))
    counts = [(IDS[seen] == each).sum().item() for each in (0, 3, 7)]
    assert counts == shares


def test_every_batch_has_nearly_the_shares():
    for batch in sampler([1, 1, 2]).batches(3):
        counts = torch.stack([(IDS[batch] == each).sum() for each in (0, 3, 7)])
        assert (counts - torch.tensor([5, 5, 10])).abs().max() <= 2


def test_a_sample_that_is_alone_comes_in_any_batch():
    rare = sampler([60, 39, 1])  # one sample of the third class in an epoch
    where = {i for e in range(40) for i, x in enumerate(rare.batches(e)) if (IDS[x] == 7).any()}
    assert where == {0, 1, 2, 3, 4}


def test_a_class_is_gone_through_before_a_sample_comes_again():
    seen = torch.cat(list(sampler([1, 1, 2]).batches(0)))
    rare = seen[IDS[seen] == 7]
    for one_pass in rare.split(10):
        assert one_pass.unique().numel() == 10
    assert not torch.equal(*rare[:20].split(10)), "in another order each time"
    common = seen[IDS[seen] == 0]
    assert common.unique().numel() == 25
    other = torch.cat(list(sampler([1, 1, 2]).batches(1)))
    assert {*other[IDS[other] == 0].tolist()} != {*common.tolist()}


def test_shares_as_in_the_data_are_every_sample_once():
    seen = torch.cat(list(sampler([6, 3, 1]).batches(0)))
    assert seen.sort().values.equal(torch.arange(100))


def test_the_last_batch_may_be_smaller():
    for drop_last, sizes in ((True, [30] * 3), (False, [30] * 3 + [10])):
        assert [len(x) for x in sampler(batch_size=30, drop_last=drop_last).batches(0)] == sizes


@pytest.mark.parametrize(
    "weights", [[1, 2], [1, 2, 0], [1, 2, -1], [1, 2, float("nan")], [1, 2, float("inf")]]
)
def test_weights_must_be_one_for_each_class(weights):
    with pytest.raises(
        ValueError,
        match=r"weights must be 3 numbers above 0, one for each class of 'condition', not \[1, 2",
    ):
        sampler(weights)


def test_a_hierarchy_and_numbers_are_refused():
    with pytest.raises(ValueError, match=r"one class per sample, not \(100, 2\)"):
        sampler(condition=IDS[:, None].expand(-1, 2))
    with pytest.raises(ValueError, match=r"^weighted needs "):
        sampler(condition=IDS.float())


def test_whole_numbers_in_a_ratio_have_the_sum():
    assert apportioned(10, [1, 1, 1]) == [4, 3, 3]
    assert apportioned(7, [5, 2]) == [5, 2]
    generator = torch.Generator().manual_seed(0)
    for size in (1, 7, 100):
        weights = torch.rand(9, generator=generator).tolist()
        found = apportioned(size, weights)
        assert sum(found) == size
        assert all(
            abs(a - size * w / sum(weights)) < 1 for a, w in zip(found, weights, strict=True)
        )

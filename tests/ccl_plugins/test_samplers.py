from __future__ import annotations

import pytest
import torch

from ccl_plugins.samplers import Uniform


def epoch(sampler, number, start=0):
    return list(sampler.batches(number, start))


def test_every_sample_comes_once_per_epoch():
    sampler = Uniform(drop_last=False, size=10, batch_size=4, seed=0)
    assert [len(b) for b in epoch(sampler, 0)] == [4, 4, 2]
    assert sorted(torch.cat(epoch(sampler, 0)).tolist()) == list(range(10))
    assert len(sampler) == 3


def test_the_last_batch_is_left_out_where_it_is_not_full():
    sampler = Uniform(size=10, batch_size=4, seed=0)
    assert [len(b) for b in epoch(sampler, 0)] == [4, 4]
    assert len(sampler) == 2


def test_the_order_depends_on_epoch_and_seed_and_nothing_else():
    a = Uniform(size=100, batch_size=10, seed=0)
    torch.manual_seed(99)
    again = Uniform(size=100, batch_size=10, seed=0)
    torch.testing.assert_close(epoch(a, 3), epoch(again, 3))
    orders = {tuple(torch.cat(epoch(a, e)).tolist()) for e in range(5)}
    orders |= {
        tuple(torch.cat(epoch(Uniform(size=100, batch_size=10, seed=s), 0)).tolist())
        for s in (1, 2)
    }
    assert len(orders) == 7


def test_a_start_skips_what_came_before():
    sampler = Uniform(size=100, batch_size=10, seed=0)
    torch.testing.assert_close(epoch(sampler, 1, start=7), epoch(sampler, 1)[7:])


def test_a_batch_larger_than_the_data_set_is_refused():
    with pytest.raises(ValueError, match="batch_size must be 1 to 10"):
        Uniform(size=10, batch_size=11, seed=0)

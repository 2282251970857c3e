"""What a run keeps of recent samples while it trains."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.metadata.groups import validation_rows
from ccl_plugins.watching.bank import FIT, HELD, Bank, roles


def written(bank, batches=3):
    chosen = torch.tensor([True, False, True, True])
    for batch in range(batches):
        index = torch.arange(4) + 10 * batch
        bank.write(index[:, None].float(), index, chosen, batch)
    return bank


def test_a_full_bank_leaves_later_samples_out():
    bank = written(Bank(5))
    numbers, index = bank.read()
    assert index.tolist() == [0, 2, 3, 10, 12]
    assert numbers.flatten().tolist() == index.tolist()
    bank.clear()
    assert not len(bank.read()[0])


def test_samples_are_in_the_order_of_batches_and_indices():
    bank = Bank(9)
    for batch, index in enumerate(([7, 1], [5, 0])):
        bank.write(torch.zeros(2, 1), torch.tensor(index), torch.ones(2).bool(), batch)
    assert bank.read()[1].tolist() == [1, 7, 0, 5]


def test_a_bank_continues_from_its_state():
    first, second = written(Bank(9), 2), Bank(9)
    second.load_state_dict(first.state_dict(), torch.device("cpu"))
    more = torch.tensor([40])
    for bank in (first, second):
        bank.write(more[:, None].float(), more, torch.ones(1).bool(), 7)
    torch.testing.assert_close(second.read(), first.read(), rtol=0, atol=0)
    empty = Bank(9)
    empty.load_state_dict(Bank(9).state_dict(), torch.device("cpu"))
    assert not len(empty.read()[1])


def test_what_is_held_out_is_the_validation_part():
    kept, held = roles(400, 1.0)
    assert kept.all()
    assert held.nonzero().flatten().tolist() == sorted(validation_rows(400)[1].tolist())
    assert [each.tolist() for each in roles(1, 1.0)] == [[False], [False]]


def test_monitors_of_a_single_group_say_that_they_measure_nothing():
    with pytest.warns(UserWarning, match="all 9 training samples are in one group, so monitors"):
        kept, held = roles(9, 1.0, torch.full((9,), 3))
    assert not kept.any()
    assert not held.any()


def test_large_data_fill_the_bank_and_never_more():
    for passes in (1.0, 0.01):
        kept, held = roles(2_000_000, passes)
        assert int(held.sum()) == 200_000
        for chosen, room in ((kept & ~held, FIT), (kept & held, HELD)):
            seen = int(chosen.sum()) * passes
            torch.testing.assert_close(seen, 0.9 * room, rtol=0.01, atol=1)

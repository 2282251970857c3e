"""What two ranks answer, and how they fail."""

from __future__ import annotations

import os

import pytest
import torch
from torch import distributed

from ccl_plugins.testing import on_two_ranks


class OfTwo(Exception):
    """Cannot be made again of its arguments."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what} {number}")


class Holding(Exception):
    """Holds what cannot be sent."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.held = lambda: 0


def fail(number: int) -> None:
    raise OfTwo("page", 3) if number else Holding("the reason")


def fail_on_the_second() -> None:
    if distributed.get_rank() == 1:
        raise ValueError("the reason of rank 1")
    distributed.all_reduce(torch.ones(1))


def end_the_second() -> int:
    if distributed.get_rank() == 1:
        os._exit(1)
    return 0


def rank(number: int) -> tuple[int, int]:
    return number, distributed.get_rank()


@pytest.mark.parametrize(
    ("function", "arguments", "error", "reason"),
    [
        (fail, (0,), RuntimeError, "Holding: the reason"),
        (fail, (1,), RuntimeError, "OfTwo: page 3"),
        (fail_on_the_second, (), ValueError, "the reason of rank 1"),
        (end_the_second, (), RuntimeError, "the process of rank 1 ended"),
    ],
)
def test_the_reason_is_told_and_the_next_call_has_its_own_answer(
    function, arguments, error, reason
):
    with pytest.raises(error, match=reason):
        on_two_ranks(function, *arguments)
    for number in (5, 6):
        assert on_two_ranks(rank, number) == [(number, 0), (number, 1)]

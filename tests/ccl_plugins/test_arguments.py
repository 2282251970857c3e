from __future__ import annotations

import numpy as np
import pytest

from ccl_plugins.arguments import LARGEST, MOST, matrix, number, positive, whole, wholes


def test_numbers_of_numpy_count_and_truth_values_do_not():
    assert type(whole("k", np.int64(3), 1)) is int
    assert whole("k", np.uint8(1), 1) == 1
    assert number("lr", np.float32(0.5)) == 0.5
    for check, value in ((number, True), (number, "1"), (number, np.True_)):
        with pytest.raises(TypeError, match="must be a number, not"):
            check("lr", value)
    for value in (True, np.True_, 2.0, "2"):
        with pytest.raises(TypeError, match="k must be a whole number, not"):
            whole("k", value, 1)
    with pytest.raises(ValueError, match="k must be 2 or more, not 1"):
        whole("k", 1, 2)


def test_whole_numbers_have_a_most_and_a_message_of_one_line():
    assert whole("k", MOST, 1) == MOST
    for value, words in ((MOST + 1, "4294967296"), (10**5000, "one of 16610 bits")):
        with pytest.raises(ValueError, match=f"^k must be at most 4294967295, not {words}$"):
            whole("k", value, 1)
    with pytest.raises(ValueError, match="each of k must be at most 8, not 9"):
        wholes("k", [1, 9], 1, 8)
    for value in (3, "3", None):
        with pytest.raises(TypeError, match=r"k must be whole numbers, such as \[1, 5\], not"):
            wholes("k", value, 1)
    with pytest.raises(TypeError) as raised:
        number("lr", np.zeros((3, 3)))
    assert "\n" not in str(raised.value)


def test_a_whole_number_that_no_float_holds_is_refused_by_its_name():
    for check in (number, positive):
        with pytest.raises(ValueError, match="lr must be a number that fits a float, not one of"):
            check("lr", 10**400)


def test_two_sides_that_fit_alone_may_be_too_large_together():
    matrix(("hidden", 2**16), ("dim", 2**16))
    assert LARGEST == 2**32
    with pytest.raises(ValueError, match="hidden=65537 and dim=65536 make a matrix of more than"):
        matrix(("hidden", 2**16 + 1), ("dim", 2**16))

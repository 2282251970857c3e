from __future__ import annotations

import numpy as np
import pytest

from ccl_plugins.arguments import number, whole


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

from __future__ import annotations

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import HardNegInfoNCE, InfoNCE


def test_equals_the_slow_loop_in_value_and_gradient():
    (x, y), _ = random_batch()
    slow = slow_infonce.both(slow_infonce.hardneg, x, y, 3, 0.3)
    assert_same(HardNegInfoNCE(0.3, nearest=3)(x, y), slow, (x, y))


def test_with_all_as_the_nearest_it_is_infonce():
    (x, y), _ = random_batch()
    found = HardNegInfoNCE(0.2, nearest=100, within_view=True)(x, y)
    torch.testing.assert_close(found, InfoNCE(0.2, within_view=True)(x, y))


def test_nearest_below_1_is_named():
    with pytest.raises(ValueError, match="nearest must be 1 or more, not 0"):
        HardNegInfoNCE(nearest=0)

from __future__ import annotations

import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import InfoNCE, WeaklySupInfoNCE


def test_equals_the_slow_loop_in_value_and_gradient():
    (x, y), ids = random_batch()
    slow = slow_infonce.both(slow_infonce.weaklysup, x, y, ids, 0.3)
    assert_same(WeaklySupInfoNCE(0.3)(x, y, condition=ids), slow, (x, y))


def test_with_classes_of_one_sample_it_is_infonce():
    (x, y), _ = random_batch()
    found = WeaklySupInfoNCE(0.2)(x, y, condition=torch.arange(7))
    torch.testing.assert_close(found, InfoNCE(0.2)(x, y))

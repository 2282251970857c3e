from __future__ import annotations

from support import slow_loops
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import NTXent


def test_equals_the_slow_loop_in_value_and_gradient():
    (x, y), _ = random_batch()
    assert_same(NTXent(0.3)(x, y), slow_loops.nt_xent(x, y, 0.3), (x, y))

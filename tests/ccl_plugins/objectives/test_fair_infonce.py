from __future__ import annotations

import pytest
import torch
from support import slow_infonce
from support.slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import FairInfoNCE, InfoNCE
from ccl_plugins.pairs import Samples, in_batch


@pytest.mark.parametrize("within_view", [False, True])
def test_equals_the_slow_loop_in_value_and_gradient(within_view):
    (x, y), ids = random_batch()
    slow = slow_infonce.both(slow_infonce.fair, x, y, ids, 0.3, within_view)
    assert_same(FairInfoNCE(0.3, within_view=within_view)(x, y, condition=ids), slow, (x, y))


def test_an_anchor_alone_in_its_class_does_not_count():
    (x, y), ids = random_batch()
    pairs = in_batch(torch.stack([x, y]), Samples({"condition": ids}))
    _, weights = FairInfoNCE().terms(pairs)
    assert weights.tolist() == [[1, 1, 1, 0, 1, 1, 1]] * 2


def test_one_class_is_infonce():
    (x, y), ids = random_batch()
    torch.testing.assert_close(FairInfoNCE()(x, y, condition=ids * 0), InfoNCE()(x, y))

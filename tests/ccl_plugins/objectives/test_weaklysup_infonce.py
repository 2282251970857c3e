from __future__ import annotations

import oracle
import slow_infonce
import torch
from slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import InfoNCE, WeaklySupInfoNCE
from ccl_plugins.pairs import Pairs


def test_draws_and_partner_keys_give_equation_3():
    """The keys are the drawn partners and, after them, the samples that negatives are drawn from."""
    case = oracle.case("weaklysup_infonce_explicit")
    data = oracle.tensors(case["inputs"])
    draws = torch.tensor(case["inputs"]["neg_idx"])
    x, y = (torch.nn.functional.normalize(data[key], dim=1) for key in "xy")
    pairs = Pairs(
        anchors=x[None],
        keys=torch.cat([y[data["pos_idx"]], y])[None],
        anchor_views=(0,),
        key_views=(1,),
        draws=len(x) + draws,
    )
    expected = torch.tensor(case["expected_paper"], dtype=torch.float64)
    found = WeaklySupInfoNCE(case["params"]["tau"]).loss(pairs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


def test_equals_the_slow_loop_in_value_and_gradient():
    (x, y), ids = random_batch()
    slow = slow_infonce.both(slow_infonce.weaklysup, x, y, ids, 0.3)
    assert_same(WeaklySupInfoNCE(0.3)(x, y, condition=ids), slow, (x, y))


def test_with_classes_of_one_sample_it_is_infonce():
    (x, y), _ = random_batch()
    found = WeaklySupInfoNCE(0.2)(x, y, condition=torch.arange(7))
    torch.testing.assert_close(found, InfoNCE(0.2)(x, y))

from __future__ import annotations

import oracle
import pytest
import slow_infonce
import torch
from slow_infonce import assert_same, random_batch

from ccl_plugins.objectives import FairInfoNCE, InfoNCE
from ccl_plugins.pairs import Pairs, in_batch


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"symmetric": False}, None),
        ({}, "symmetrised"),
        ({"within_view": True}, "ntxent_style_both_views"),
    ],
)
def test_equals_the_stored_values(settings, key):
    case = oracle.case("fair_infonce_inbatch")
    data = oracle.tensors(case["inputs"])
    stored = case["expected_paper"] if key is None else case["extras"][key]
    expected = torch.tensor(stored, dtype=torch.float64)
    found = FairInfoNCE(case["params"]["tau"], **settings)(
        data["x"], data["y"], condition=data["z"]
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


def test_draws_give_equation_4():
    case = oracle.case("fair_infonce_explicit")
    data = oracle.tensors(case["inputs"])
    x, y = (torch.nn.functional.normalize(data[key], dim=1) for key in "xy")
    pairs = Pairs(
        anchors=x[None],
        keys=y[None],
        anchor_views=(0,),
        key_views=(1,),
        draws=torch.tensor(case["inputs"]["neg_idx"]),
    )
    expected = torch.tensor(case["expected_paper"], dtype=torch.float64)
    found = FairInfoNCE(case["params"]["tau"]).loss(pairs)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("within_view", [False, True])
def test_equals_the_slow_loop_in_value_and_gradient(within_view):
    (x, y), ids = random_batch()
    slow = slow_infonce.both(slow_infonce.fair, x, y, ids, 0.3, within_view)
    assert_same(FairInfoNCE(0.3, within_view=within_view)(x, y, condition=ids), slow, (x, y))


def test_an_anchor_alone_in_its_class_does_not_count():
    (x, y), ids = random_batch()
    pairs = in_batch(torch.stack([x, y]), {"condition": ids})
    _, weights = FairInfoNCE().terms(pairs)
    assert weights.tolist() == [[1, 1, 1, 0, 1, 1, 1]] * 2


def test_one_class_is_infonce():
    (x, y), ids = random_batch()
    torch.testing.assert_close(FairInfoNCE()(x, y, condition=ids * 0), InfoNCE()(x, y))

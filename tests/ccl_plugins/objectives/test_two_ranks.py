"""Two ranks with different data equal one process with the whole batch, in value and gradient."""

from __future__ import annotations

from functools import partial

import pytest
import sharded
import torch

from ccl_plugins.kernels import RBF, Cosine, Linear
from ccl_plugins.objectives import (
    ClInfoNCE,
    FairCCLK,
    FairInfoNCE,
    HardNegCCLK,
    HardNegInfoNCE,
    InfoNCE,
    SoftInfoNCE,
    WeaklySupCCLK,
    WeaklySupInfoNCE,
)

CASES = {
    "infonce": partial(InfoNCE),
    "nt_xent": partial(InfoNCE, within_view=True),
    "fair, categorical": partial(FairCCLK, Linear()),
    "fair, continuous": partial(FairCCLK, RBF(2.0)),
    "weaklysup": partial(WeaklySupCCLK, Cosine()),
    "hardneg": partial(HardNegCCLK, RBF(4.0), ridge=0.5),
    "released fair": partial(FairCCLK, RBF(2.0), form="released"),
    "released weaklysup": partial(WeaklySupCCLK, RBF(2.0), form="released"),
    "soft_infonce": partial(SoftInfoNCE, RBF(2.0)),
    "excluding": partial(InfoNCE, exclude=(Cosine(), 0.9)),
    "cl_infonce, categorical": partial(ClInfoNCE),
    "fair_infonce, categorical": partial(FairInfoNCE),
    "weaklysup_infonce, categorical": partial(WeaklySupInfoNCE),
    "hardneg_infonce": partial(HardNegInfoNCE, nearest=3),
    "replicated": partial(sharded.Replicated),
}


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_equal_one_process(two_processes, name):
    torch.manual_seed(3)
    views = torch.randn(2, 8, 5, dtype=torch.float64)
    condition = {"condition": torch.rand(8, 3, dtype=torch.float64)}
    if name.endswith("categorical"):
        condition = {"condition": torch.randint(3, (8,))}
    if name == "hardneg":
        condition = {"condition": torch.randn(2, 8, 3, dtype=torch.float64)}
    if name in ("infonce", "nt_xent", "hardneg_infonce", "replicated"):
        condition = {}
    expected = sharded.whole(CASES[name], views, condition)
    for found in two_processes(sharded.loss_and_gradient, CASES[name], views, condition):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)

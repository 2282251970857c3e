"""Two ranks with different data equal one process with the whole batch, in value and gradient."""

from __future__ import annotations

from functools import partial

import pytest
import sharded
import torch

from ccl_plugins.kernels import RBF, Cosine, Linear
from ccl_plugins.objectives import FairCCLK, HardNegCCLK, InfoNCE, WeaklySupCCLK

CASES = {
    "infonce": partial(InfoNCE),
    "nt_xent": partial(InfoNCE, within_view=True),
    "fair, categorical": partial(FairCCLK, Linear()),
    "fair, continuous": partial(FairCCLK, RBF(2.0)),
    "weaklysup": partial(WeaklySupCCLK, Cosine()),
    "hardneg": partial(HardNegCCLK, RBF(4.0), ridge=0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_equal_one_process(two_processes, name):
    torch.manual_seed(3)
    views = torch.randn(2, 8, 5, dtype=torch.float64)
    condition = {"condition": torch.rand(8, 3, dtype=torch.float64)}
    if name == "fair, categorical":
        condition = {"condition": torch.randint(3, (8,))}
    if name == "hardneg":
        condition = {"condition": torch.randn(2, 8, 3, dtype=torch.float64)}
    if name in ("infonce", "nt_xent"):
        condition = {}
    expected = sharded.whole(CASES[name], views, condition)
    for found in two_processes(sharded.loss_and_gradient, CASES[name], views, condition):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)

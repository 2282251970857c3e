"""What holds for every objective of the InfoNCE family."""

from __future__ import annotations

import pytest
import torch

from ccl_plugins.kernels import RBF, Cosine, Linear
from ccl_plugins.objectives import (
    ClInfoNCE,
    FairCCLK,
    FairInfoNCE,
    HardNegInfoNCE,
    InfoNCE,
    NTXent,
    SoftInfoNCE,
    SupCon,
    WeaklySupCCLK,
    WeaklySupInfoNCE,
)

OBJECTIVES = {
    "nt_xent": NTXent,
    "cl_infonce": ClInfoNCE,
    "supcon": SupCon,
    "weaklysup_infonce": WeaklySupInfoNCE,
    "fair_infonce": FairInfoNCE,
    "hardneg_infonce": HardNegInfoNCE,
    "soft_infonce": lambda tau: SoftInfoNCE(RBF(), tau),
    "soft_infonce, softmax": lambda tau: SoftInfoNCE(Cosine(), tau, target_temperature=0.1),
    "released fair_cclk": lambda tau: FairCCLK(Linear(), tau, form="released"),
    "released weaklysup_cclk": lambda tau: WeaklySupCCLK(Linear(), tau, form="released"),
    "excluding": lambda tau: InfoNCE(tau, exclude=(Linear(), 1.0)),
}


def call(objective, x, y, ids):
    return objective(x, y, condition=ids if objective.conditions else None)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(
    "batch",
    ["two samples", "one class", "all distinct", "identical rows", "zero vectors", "cold"],
)
def test_degenerate_batches_are_finite(name, batch):
    torch.manual_seed(2)
    b = 2 if batch == "two samples" else 6
    x, y = torch.randn(b, 4), torch.randn(b, 4)
    ids = torch.zeros(b).long() if batch == "one class" else torch.arange(b)
    if batch == "identical rows":
        x, y = x[:1].repeat(b, 1), x[:1].repeat(b, 1)
    if batch == "zero vectors":
        x, y = x * 0, y * 0
    x.requires_grad_()
    loss = call(OBJECTIVES[name](0.01 if batch == "cold" else 0.1), x, y, ids)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_float32_agrees_with_float64(name):
    torch.manual_seed(0)
    x, y, ids = torch.randn(9, 5), torch.randn(9, 5), torch.randint(3, (9,))
    objective = OBJECTIVES[name](0.1)
    exact = call(objective, x.double(), y.double(), ids)
    torch.testing.assert_close(call(objective, x, y, ids).double(), exact, rtol=2e-5, atol=0)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_compiles_without_graph_breaks(name):
    torch.manual_seed(0)
    x, y, ids = torch.randn(6, 5), torch.randn(6, 5), torch.randint(3, (6,))
    objective = OBJECTIVES[name](0.1)
    torch.compiler.reset()  # each objective is one more recompilation of one forward
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    torch.testing.assert_close(call(compiled, x, y, ids), call(objective, x, y, ids))


@pytest.mark.parametrize("name", ["cl_infonce", "supcon", "weaklysup_infonce", "fair_infonce"])
def test_class_ids_are_asked_for(name):
    x = torch.randn(6, 5)
    with pytest.raises(TypeError, match="needs a categorical condition, but condition is contin"):
        OBJECTIVES[name](0.1)(x, x, condition=torch.rand(6))

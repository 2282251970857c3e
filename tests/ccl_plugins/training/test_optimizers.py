from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from ccl_plugins.training.optimizers import make_optimizer, parameter_groups, warmup_cosine


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1, 5, 3))
        self.layer = nn.Linear(3, 3)
        self.norm = nn.LayerNorm((5, 3))
        self.frozen = nn.Parameter(torch.zeros(3, 3), requires_grad=False)

    def no_weight_decay(self) -> set[str]:
        return {"position"}


def method() -> nn.Module:
    model = nn.Module()
    model.backbone = Backbone()
    model.head = nn.Linear(3, 2)
    return model


def named(model: nn.Module, group: dict) -> set[str]:
    ids = {id(p) for p in group["params"]}
    return {name for name, p in model.named_parameters() if id(p) in ids}


def test_only_matrices_decay_and_nothing_of_the_objective() -> None:
    model, objective = method(), nn.Linear(4, 4)
    decay, kept, own = parameter_groups(model, objective)
    assert [g["name"] for g in (decay, kept, own)] == ["decay", "no_decay", "objective"]
    assert named(model, decay) == {"backbone.layer.weight", "head.weight"}
    assert named(model, kept) == {
        "backbone.position",
        "backbone.layer.bias",
        "backbone.norm.weight",
        "backbone.norm.bias",
        "head.bias",
    }
    assert named(objective, own) == {"weight", "bias"}
    assert kept["weight_decay"] == own["weight_decay"] == 0


@pytest.mark.parametrize("name", ["adamw", "sgd", "lars"])
def test_every_optimizer_takes_the_groups(name: str) -> None:
    settings = {"name": name, "lr": 0.1, "weight_decay": 0.01}
    settings |= {} if name == "adamw" else {"momentum": 0.9}
    model = method()
    optimizer = make_optimizer(parameter_groups(model, nn.Identity()), settings)
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0]
    model.head(torch.ones(1, 3)).sum().backward()
    before = model.head.weight.clone()
    optimizer.step()
    assert not torch.equal(model.head.weight, before)


def test_the_rate_rises_linearly_and_falls_as_a_cosine_that_ends_after_the_last_step() -> None:
    factor = warmup_cosine(total=10, warmup=4)
    assert [factor(i) for i in range(4)] == [0.25, 0.5, 0.75, 1.0]
    falling = [factor(i) for i in range(4, 11)]
    torch.testing.assert_close(falling, [(1 + math.cos(math.pi * i / 6)) / 2 for i in range(7)])
    assert factor(9) > 0 == factor(10)


def test_a_schedulers_state_does_not_hold_the_number_of_steps() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(10, 0))
    assert scheduler.state_dict()["lr_lambdas"] == [None]

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from support import oracle
from support.imports import ROOT
from timm.optim import param_groups_layer_decay
from torch import Tensor, nn

import ccl_plugins as ccl
from ccl_plugins.backbones import MLP, LeNet5, TextTransformer, Timm, ViTMoCoV3
from ccl_plugins.methods import Dual, MoCoV2, SimCLR
from ccl_plugins.training.parameter_groups import parameter_groups, scaled


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1, 5, 3))
        self.layer = nn.Linear(3, 3)
        self.norm = nn.LayerNorm((5, 3))
        self.gamma = nn.Parameter(torch.ones(3))  # as LayerScale's: neither a bias nor of a norm
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
        "backbone.gamma",
        "backbone.layer.bias",
        "backbone.norm.weight",
        "backbone.norm.bias",
        "head.bias",
    }
    assert named(objective, own) == {"weight", "bias"}
    assert kept["weight_decay"] == own["weight_decay"] == 0


def test_a_tower_names_what_is_not_decayed_of_it() -> None:
    text = TextTransformer(vocabulary=11, length=6, width=8, depth=1)
    model = Dual({"text": text}, dim=8, backbone=MLP(12))
    decay, kept = parameter_groups(model, nn.Identity())
    assert {f"towers.text.{name}" for name in text.no_weight_decay()} <= named(model, kept)
    assert not any("position" in name or "token" in name for name in named(model, decay))


def make_optimizer(
    groups: Any, name: str, samples: int = 8, lr_per: int | None = None, **options: Any
) -> torch.optim.Optimizer:
    chosen = ccl.create("optimizer", name, **options)
    made: torch.optim.Optimizer = chosen(scaled(groups, chosen.lr, samples, lr_per))
    return made


def test_all_parameters_of_the_method_decay_on_request() -> None:
    model, objective = method(), nn.Linear(4, 4)
    decay, own = parameter_groups(model, objective, decay="all")
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    assert named(model, decay) == learning
    assert "weight_decay" not in decay
    assert own["weight_decay"] == 0


def test_a_rate_may_be_for_a_number_of_samples() -> None:
    groups = parameter_groups(method(), nn.Identity())
    for lr_per, expected in ((256, 3.0), (None, 1.5)):
        optimizer = make_optimizer(groups, "sgd", 512, lr_per, lr=1.5)
        assert optimizer.param_groups[0]["lr"] == expected


def test_what_timm_trains_without_decay_does_not_decay_below_a_method() -> None:
    for wrap in (SimCLR, MoCoV2):
        backbone = Timm("test_vit")
        model = wrap(**wrap.EXAMPLE, backbone=backbone)
        decay, kept = parameter_groups(model, nn.Identity())
        assert {f"backbone.{name}" for name in backbone.no_weight_decay()} <= named(model, kept)
        tokens = {"backbone.model.pos_embed", "backbone.model.cls_token"}
        assert tokens <= named(model, kept)
        assert not tokens & named(model, decay)


def test_what_is_frozen_is_in_no_group() -> None:
    model = SimCLR(**SimCLR.EXAMPLE, backbone=ViTMoCoV3("test_vit", heads=2))
    together = {name for g in parameter_groups(model, nn.Identity()) for name in named(model, g)}
    assert together == {name for name, p in model.named_parameters() if p.requires_grad}
    assert "backbone.model.patch_embed.proj.weight" not in together


@pytest.mark.parametrize("name", ["test_vit", "resnet10t"])
def test_layers_learn_as_timm_lets_them_below_a_classifier(name: str) -> None:
    model = SimCLR(**SimCLR.EXAMPLE, backbone=Timm(name))
    groups = parameter_groups(model, nn.Identity(), layer_decay=0.75)
    scales = {each: g["lr_scale"] for g in groups for each in named(model, g)}
    reference = timm.create_model(name)
    ids = {id(p): each for each, p in reference.named_parameters()}
    for group in param_groups_layer_decay(reference, layer_decay=0.75):
        for parameter in group["params"]:
            each = f"backbone.model.{ids[id(parameter)]}"
            assert scales.get(each, 1.0) == group["lr_scale"], each
    assert all(scales[f"head.{each}"] == 1 for each, _ in model.head.named_parameters())
    assert groups[0]["lr_scale"] == 1, "the rate that is shown is the heads'"


def test_layers_learn_at_their_rates() -> None:
    model = SimCLR(**SimCLR.EXAMPLE, backbone=Timm("resnet10t"))
    groups = parameter_groups(model, nn.Identity(), layer_decay=0.5)
    optimizer = make_optimizer(groups, "sgd", lr=8.0)
    rates = {g["name"]: g["lr"] for g in optimizer.param_groups}
    assert rates["decay/5"] == 8
    assert rates["decay/4"] == rates["no_decay/4"] == 4
    assert rates["decay/0"] == 0.25
    assert len(rates) == len(optimizer.param_groups)


def test_a_backbone_without_layers_cannot_decay_by_layer() -> None:
    model = SimCLR(**SimCLR.EXAMPLE, backbone=LeNet5())
    with pytest.raises(ValueError, match="as those of timm do, and LeNet5 does not"):
        parameter_groups(model, nn.Identity(), layer_decay=0.5)


def two_steps(case: dict[str, Any], decay: str) -> tuple[Tensor, Tensor]:
    """The weights after two steps of lars on the stored gradients."""
    given = {k: torch.tensor(v, dtype=torch.float64) for k, v in case["inputs"].items()}
    model = nn.Module()
    model.backbone = nn.Identity()
    model.w = nn.Parameter(given["w"].clone())
    model.bias = nn.Parameter(given["bias"].clone())
    params = case["params"]
    options = {name: params[name] for name in ("lr", "weight_decay", "momentum")}
    groups = parameter_groups(model, nn.Identity(), decay)
    optimizer = make_optimizer(groups, "lars", **options)
    for step in range(2):
        model.w.grad, model.bias.grad = given["grad_w"][step], given["grad_bias"][step]
        optimizer.step()
    return model.w.detach(), model.bias.detach()


@pytest.mark.parametrize(
    ("name", "decay"), [("lars_mocov3_two_steps", "matrices"), ("lars_cclk_two_steps", "all")]
)
def test_two_steps_of_lars_are_the_published_ones(name: str, decay: str) -> None:
    case = oracle.case(name)
    stored = [
        torch.tensor(case["extras"][k], dtype=torch.float64) for k in ("w_after", "bias_after")
    ]
    found = two_steps(case, decay)
    # lightly adds 1e-8 to the gradient's norm, and takes norms before it adds the decay.
    torch.testing.assert_close(found, tuple(stored), rtol=0, atol=5e-8)
    total = torch.cat([x.flatten() for x in found]).sum().item()
    torch.testing.assert_close(total, case["expected_paper"], rtol=1e-8, atol=0)


def trained(weight_decay: float, of_moco_v3: bool) -> torch.Tensor:
    """The weights of a small network after 50 steps of lars, or of the one in MoCo v3's code."""
    torch.manual_seed(0)
    layers = [nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU()]
    layers += [nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16)]
    network = nn.Sequential(*layers).double()
    x, y = torch.randn(256, 48, dtype=torch.float64).split([32, 16], dim=1)
    groups = parameter_groups(network, nn.Identity())
    optimizer = make_optimizer(groups, "lars", lr=4.8, weight_decay=weight_decay)
    steps = {p: torch.zeros_like(p) for p in network.parameters()}
    for _ in range(50):
        network.zero_grad()
        (network(x) - y).square().mean().backward()
        if not of_moco_v3:
            optimizer.step()
            continue
        with torch.no_grad():
            for p in network.parameters():
                step = p.grad + weight_decay * p if p.ndim > 1 else p.grad
                ratio = 0.001 * p.norm() / step.norm() if p.ndim > 1 else 1
                steps[p] = 0.9 * steps[p] + ratio * step
                p -= 4.8 * steps[p]
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_the_page_says_how_far_lars_is_from_that_of_moco_v3() -> None:
    page = " ".join((ROOT / "docs" / "how-to" / "recipes.md").read_text("utf-8").split())
    differences = []
    for decay in (1e-6, 1e-2):
        ours, released = (trained(decay, of_moco_v3) for of_moco_v3 in (False, True))
        differences.append(float((ours - released).norm() / released.norm()))
    expected = "by {:.0%} with a decay of 1e-6 and by {:.0%} with one of 1e-2"
    assert expected.format(*differences).replace("%", " %") in page


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_fused_steps_are_the_same_but_for_rounding(name: str) -> None:
    found = []
    for fused in (False, True):
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 7))
        optimizer = ccl.create("optimizer", name, lr=0.1, fused=fused)([{"params": [weight]}])
        assert bool(optimizer.defaults["fused"]) is fused
        for step in range(5):
            weight.grad = torch.linspace(1, -2, 7) * step
            optimizer.step()
        found.append(weight.detach())
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("adamw", {"lr": 0.0}, "lr must be a finite number above 0, not 0.0"),
        ("adamw", {"weight_decay": -1.0}, "weight_decay must be a finite number, 0 or more"),
        ("adamw", {"momentum": 0.9}, "adamw has no parameter 'momentum'"),
        ("adamw", {"lr": "3e-3"}, "lr must be float, not '3e-3'"),
        ("sgd", {"momentum": 1.0}, "from 0 to below 1, not 1.0"),
        ("sgd", {"nesterov": 1}, "nesterov must be bool, not 1"),
        ("sgd", {"nesterov": True, "momentum": 0.0}, "nesterov needs a momentum above 0"),
        ("lars", {"weight_decay": 0.0}, "above 0 for lars"),
        ("adanw", {}, "Did you mean 'adamw'"),
    ],
)
def test_what_is_wrong_is_quoted(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ccl.create("optimizer", name, **options)

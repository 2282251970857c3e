"""A batch that is embedded in pieces has the gradient of the whole batch."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.resuming import assert_equal
from support.training_fakes import FakeDataset, fit, make_parts
from torch import Tensor, nn

from ccl_plugins.conditions import Label
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kernels import Delta
from ccl_plugins.methods import MoCoV2, SimCLR
from ccl_plugins.objectives import AlignUniform, FairCCLK, InfoNCE
from ccl_plugins.pairs import Samples
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step import embed, warn_about_statistics


class Noise(nn.Module):
    """Draws from every generator, and counts its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        shift = random.random() + np.random.rand()
        return nn.functional.dropout(x, 0.2) + shift * torch.randn_like(x)


def network(noise: bool, norm: type[nn.Module] = nn.LayerNorm) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(48, 8), norm(8), nn.Tanh(), *([Noise()] if noise else [])]
    backbone: Any = nn.Sequential(*layers)
    backbone.num_features = 8
    return backbone.double()


def methods(noise: bool) -> dict[str, Any]:
    torch.manual_seed(1)
    heads = {"hidden": 8, "dim": 4, "batch_norm": False}
    return {
        "simclr": SimCLR(**heads, backbone=network(noise)).double(),
        "moco_v2": MoCoV2(**heads, queue_size=16, backbone=network(noise)).double(),
        "symmetric": MoCoV2(
            **heads, queue_size=16, symmetric=True, backbone=network(noise)
        ).double(),
    }


def views(n: int = 10) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(n, 3, 4, 4, generator=generator, dtype=torch.float64) for _ in range(2)]


def gradients(method: Any, objective: Any, embedded: Any) -> list[Tensor]:
    z = {name: torch.arange(10) % 3 for name in objective.conditions}
    loss = objective.loss(method.pairs(embedded.normalized(), Samples(z, torch.arange(10))))
    parameters = [p for p in (*method.parameters(), *objective.parameters()) if p.requires_grad]
    return [loss.detach(), *torch.autograd.grad(loss, parameters)]


@pytest.mark.parametrize("name", ["simclr", "moco_v2", "symmetric"])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_pieces_give_the_gradient_of_the_whole(name: str, size: int) -> None:
    method = methods(noise=False)[name]
    objectives = [InfoNCE({"learn": True, "start": 0.3}), FairCCLK(Delta())]
    for objective in [*objectives, *([AlignUniform()] if name == "simclr" else [])]:
        whole = gradients(method, objective, method.embed(views()))
        pieces = gradients(method, objective, embed(method, views(), size))
        torch.testing.assert_close(pieces, whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["simclr", "moco_v2"])
def test_the_second_pass_draws_what_the_first_drew(name: str) -> None:
    """Without pieces' graphs given up, the same draws give the same gradient."""
    method = methods(noise=True)[name]
    found = []
    for held in (True, False):
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)
        if held:
            parts = [method.embed([v[i : i + 5] for v in views()]) for i in (0, 5)]
            joined = {
                key: torch.cat([getattr(part, key) for part in parts], 1)
                for key, value in vars(parts[0]).items()
                if value is not None
            }
            embedded = type(parts[0])(**joined)
        else:
            embedded = embed(method, views(), 5)
        drawn = [random.random(), np.random.rand(), torch.rand(1)]
        gradient = gradients(method, InfoNCE(), embedded)
        found.append((drawn, gradient, random.random(), np.random.rand(), torch.rand(1)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)


def test_running_statistics_follow_the_first_pass_alone() -> None:
    found = []
    for held in (True, False):
        method = SimCLR(hidden=8, dim=4, backbone=network(False, nn.BatchNorm1d)).double()
        if held:
            for i in (0, 5):
                method.embed([v[i : i + 5] for v in views()])
        else:
            embedded = embed(method, views(), 5)
            embedded.projections.sum().backward()
            assert all(p.grad is not None for p in method.parameters())
        found.append(dict(method.named_buffers()))
    assert int(found[0]["backbone.2.num_batches_tracked"]) == 2
    assert_equal(found[1], found[0])


def test_momentum_keys_are_computed_once() -> None:
    method = methods(noise=True)["moco_v2"]
    objective = InfoNCE()
    gradients(method, objective, embed(method, views(), 5))
    assert method.backbone[-1].passes == 4
    assert method.key_encoder.backbone[-1].passes == 2


def run(out: Path, micro_batch: int | None, **settings: Any) -> tuple[Any, dict[str, Tensor]]:
    out.mkdir()
    method = methods(noise=False)["moco_v2"].float()
    parts = make_parts(
        dataset=FakeDataset(44),
        method=method,
        objective=FairCCLK(Delta()),
        conditions={"condition": Label()},
    )
    given = {"epochs": 2, "batch_size": 8, "workers": 0, "clip": 0.5, **settings}
    fit(parts, FitSettings(micro_batch=micro_batch, **given), out, {}, progress=False)
    return method, read_checkpoint(RunFolder(out).weights)["method"]


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [({}, 1e-6), ({"accumulate": 2}, 1e-6), ({"precision": "bf16-mixed"}, 5e-3)],
)
def test_a_run_in_pieces_ends_with_the_same_weights(
    tmp_path: Path, settings: Any, tolerance: float
) -> None:
    _, whole = run(tmp_path / "whole", None, **settings)
    _, pieces = run(tmp_path / "pieces", 3, **settings)
    torch.testing.assert_close(pieces, whole, rtol=tolerance, atol=tolerance)


def test_batch_statistics_of_pieces_are_a_warning(tmp_path: Path) -> None:
    settings = FitSettings(1, 8, workers=0, micro_batch=4)
    with pytest.warns(
        UserWarning, match="micro_batch=4: the 1 batch normalizations take .* from 8"
    ):
        fit(make_parts(), settings, tmp_path, {}, progress=False)


def test_batch_statistics_that_are_kept_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_statistics(nn.Sequential(nn.BatchNorm1d(2)).eval(), 4, 8)

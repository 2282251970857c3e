from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset, fit, make_parts
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn.modules.module import register_module_forward_hook

from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.training.settings import FitSettings


class Convolutional(nn.Sequential):
    num_features = 8

    def __init__(self) -> None:
        convolution = nn.Conv2d(3, 8, 3)
        super().__init__(convolution, nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(32, 8))
        self.formats: set[bool] = set()

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and torch.is_grad_enabled():
            self.formats.add(x.is_contiguous(memory_format=torch.channels_last))
        return super().forward(x)


def run(out: Path, **settings: Any) -> tuple[MoCoV2, dict[str, Tensor]]:
    out.mkdir()
    torch.manual_seed(0)
    method = MoCoV2(hidden=8, dim=4, queue_size=16, backbone=Convolutional())
    objective = InfoNCE({"schedule": "linear", "start": 0.6, "end": 0.1})
    parts = make_parts(dataset=FakeDataset(44), method=method, objective=objective)
    given = {"epochs": 2, "batch_size": 8, "workers": 0, **settings}
    fit(parts, FitSettings(**given), out, {}, progress=False)
    return method, read_checkpoint(RunFolder(out).weights)["method"]


def test_compiled_networks_train_to_the_same_weights(tmp_path: Path) -> None:
    torch._dynamo.reset()
    counters.clear()
    _, expected = run(tmp_path / "eager")
    assert not counters["stats"]
    _, found = run(tmp_path / "compiled", compile="eager")
    # Backbone, head, key encoder and loss, and no more though the temperature changes in every step.
    assert counters["stats"]["unique_graphs"] == 4, counters
    assert not counters["graph_break"], counters["graph_break"]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_an_unknown_backend_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no backend 'inductr'; it has .*inductor"):
        run(tmp_path / "out", compile="inductr")
    assert not list((tmp_path / "out").glob("checkpoints/*"))


def test_switches_of_torch_hold_while_it_trains(tmp_path: Path) -> None:
    def switches() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark

    seen = []
    hook = register_module_forward_hook(lambda *_: seen.append(switches()))
    before = switches()
    try:
        run(tmp_path / "out", matmul_precision="high", cudnn_benchmark=True)
    finally:
        hook.remove()
    assert set(seen) == {("high", True)}
    assert switches() == before == ("highest", False)


def test_channels_last_changes_the_memory_and_not_the_weights(tmp_path: Path) -> None:
    plain, expected = run(tmp_path / "plain")
    last, found = run(tmp_path / "last", channels_last=True)
    assert plain.backbone.formats == {False}
    assert last.backbone.formats == {True}
    assert last.backbone[0].weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

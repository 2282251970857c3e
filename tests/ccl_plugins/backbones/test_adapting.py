"""A pretrained backbone adapted to a domain, through the engine."""

from __future__ import annotations

import pytest
import safetensors.torch
import timm
import torch
from support.resuming import StopAfter
from support.training_fakes import FakeDataset

import ccl_plugins as ccl
from ccl_plugins.experiments.train import RunInterrupted


def test_frozen_layers_keep_their_weights_and_early_ones_move_less(tmp_path):
    source = timm.create_model("resnet10t", channels=(8, 8, 16, 16)).state_dict()
    safetensors.torch.save_file(source, tmp_path / "weights.safetensors")
    pipeline = ccl.Pipeline(
        dataset=FakeDataset(16),
        backbone=ccl.backbone(
            "timm",
            name="resnet10t",
            checkpoint_path=str(tmp_path / "weights.safetensors"),
            options={"channels": [8, 8, 16, 16]},
            freeze=1,
        ),
        method=ccl.method("moco_v2", hidden=16, dim=8, queue_size=16),
        transform=ccl.transform("simclr", size=32, blur=0.0),
        objective="infonce",
        evaluate=[{"use": "knn", "k": 3}],
    )
    run = pipeline.fit(
        out=tmp_path / "run",
        epochs=2,
        batch_size=8,
        workers=0,
        optimizer={"use": "adamw", "lr": 1e-3, "weight_decay": 0.0},
        layer_decay=0.1,
        schedule={"use": "constant"},
        progress=False,
    )
    saved = torch.load(run.path / "weights.pt", weights_only=True)["method"]
    prefix = "backbone.model."
    now = {k.removeprefix(prefix): v for k, v in saved.items() if k.startswith(prefix)}
    moved = {
        layer: max(
            (now[k] - v).abs().max().item()
            for k, v in source.items()
            if k.startswith(layer) and k.endswith("weight")
        )
        for layer in ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")
    }
    assert moved["conv1"] == moved["bn1"] == 0
    torch.testing.assert_close(now["bn1.running_mean"], source["bn1.running_mean"])
    assert not torch.equal(now["layer1.0.bn1.running_mean"], source["layer1.0.bn1.running_mean"])
    rates = [moved[f"layer{i}"] for i in (1, 2, 3, 4)]
    assert 0 < rates[0] < rates[1] < rates[2] < rates[3]


@pytest.mark.parametrize("stop", [0, 3])
def test_kept_batch_statistics_are_those_of_the_weights_after_a_run(tmp_path, stop):
    source = timm.create_model("resnet10t", channels=(8, 8, 16, 16)).train()
    source(torch.randn(8, 3, 32, 32))  # other statistics than those of a new model
    safetensors.torch.save_file(source.state_dict(), tmp_path / "weights.safetensors")
    pipeline = ccl.Pipeline(
        dataset=FakeDataset(16),
        backbone=ccl.backbone(
            "timm",
            name="resnet10t",
            checkpoint_path=str(tmp_path / "weights.safetensors"),
            options={"channels": [8, 8, 16, 16]},
            batch_statistics="kept",
        ),
        method=ccl.method("moco_v2", hidden=16, dim=8, queue_size=16),
        transform=ccl.transform("simclr", size=32, blur=0.0),
        objective="infonce",
        evaluate=[{"use": "knn", "k": 3}],
    )
    fit = {"epochs": 3, "batch_size": 8, "workers": 0, "progress": False}
    if stop:
        with pytest.raises(RunInterrupted):
            pipeline.fit(out=tmp_path / "run", **fit, callbacks=[StopAfter(stop)])
    run = pipeline.fit(out=tmp_path / "run", **fit, resume=bool(stop))
    saved = torch.load(run.path / "weights.pt", weights_only=True)["method"]
    for name, tensor in source.state_dict().items():
        for place in ("backbone.model.", "key_encoder.backbone.model."):
            if "running" in name or "batches" in name:
                torch.testing.assert_close(saved[place + name], tensor, rtol=0, atol=0)
            elif not name.startswith("fc."):
                assert not saved[place + name].equal(tensor), name

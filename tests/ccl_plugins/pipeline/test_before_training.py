"""A backbone that begins with weights is measured before it is trained."""

from __future__ import annotations

import pytest
import timm
import torch

import ccl_plugins as ccl
from ccl_plugins.cli import main

TOML = """
dataset = "color_digits"
backbone = {{use = "timm", name = "test_resnet"{weights}}}
method = {{use = "simclr", hidden = 16, dim = 8}}
views = {{use = "simclr", size = 32, flip = 0.0, jitter = 0.0, grey = 0.0, blur = 0.0}}
objective = "infonce"
[fit]
epochs = 1
batch_size = 256
workers = 0
[[evaluate]]
use = "knn"
"""


@pytest.fixture
def train(tmp_path, capsys):
    torch.manual_seed(0)
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), tmp_path / "w.pth")

    def call(weights, *options):
        file = tmp_path / "adapt.toml"
        file.write_text(TOML.format(weights=weights.format(tmp_path / "w.pth")))
        out = str(tmp_path / "runs")
        assert main(["train", str(file), "--out", out, "--quiet", *options]) == 0
        return ccl.load(tmp_path / "runs" / "adapt"), capsys.readouterr()

    return call


def test_a_backbone_with_weights_is_measured_before_and_after(train):
    run, said = train(', checkpoint_path = "{}"')
    assert set(run.before) == set(run.metrics) == {"knn/top1"}
    assert "adapt, before training: knn/top1" in said.err
    assert "ADAPT, BEFORE" in said.out
    untrained = ccl.load(run.path).pipeline.build()
    from ccl_plugins.runs.measure import measure

    assert measure(untrained, run.pipeline, *run.splits) == run.before

    drawn, said = train("", "--overwrite")
    assert drawn.before == {}
    assert "before" not in (said.out + said.err).lower()

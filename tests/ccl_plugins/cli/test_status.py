"""The status 0 is of what was done: a component that ends the program does not give it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
import ccl_registry as engine
from ccl_plugins.backbones.mlp import MLP
from ccl_plugins.cli import main
from ccl_plugins.evaluators import KNN
from ccl_plugins.objectives import InfoNCE


def leave(*_, **__):
    sys.exit(0)


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (InfoNCE, "conditions"),
        (InfoNCE, "min_views"),
        (InfoNCE, "distributed"),
        (InfoNCE, "progress"),
        (InfoNCE, "terms"),
        (MLP, "forward"),
        (KNN, "__call__"),
    ],
)
def test_a_component_that_ends_the_program_fails_the_run(
    in_a_folder_with_data, monkeypatch, capsys, cls, name
):
    Path("a.toml").write_text(TOML)
    is_called = name in ("forward", "progress", "terms", "__call__")
    monkeypatch.setattr(cls, name, leave if is_called else property(leave))
    assert main(["train", "a.toml", "--quiet"]) != 0
    assert "ends the program (SystemExit: 0)" in capsys.readouterr().err
    assert not Path("runs/a/weights.pt").exists()


def test_in_python_it_is_an_error_with_the_component_s_name(in_a_folder_with_data, monkeypatch):
    Path("a.toml").write_text(TOML)
    pipeline = ccl.Pipeline.from_toml("a.toml")
    monkeypatch.setattr(InfoNCE, "terms", leave)
    with pytest.raises(engine.PluginFailed, match="objective ccl-plugins/infonce ends the program"):
        pipeline.fit(out="run", progress=False)

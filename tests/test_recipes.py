"""Recipes compose without their data, and train with small networks on a few images."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset

import ccl_plugins as ccl
from ccl_plugins.numerics.generators import seed_everything

RECIPES = sorted((Path(__file__).parent.parent / "examples" / "recipes").glob("*.toml"))
NAMES = {"cclk", "clinfonce", "hscl", "cacr_small", "cacr_large", "moco_v2", "moco_v3", "dinov2"}


def test_every_paper_has_its_recipe():
    assert {path.stem for path in RECIPES} == NAMES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_composes_without_its_data(path, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    pipeline = ccl.Pipeline.from_toml(path)
    assert not [w for w in recwarn if "ccl_plugins" in w.filename]
    assert ccl.Pipeline.from_dict(pipeline.to_dict()) == pipeline


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_names_the_source_of_its_numbers(path):
    head = path.read_text().partition("\ndataset")[0]
    assert "(20" in head, "a paper and its year"
    assert head.startswith("#")


SMALL: dict[str, dict[str, Any]] = {
    "transform": {"size": 32},
    "method": {"hidden": 16, "dim": 8},
    "fit": {"epochs": 2, "batch_size": 8, "warmup_epochs": 0.5, "devices": 1, "workers": 0},
}
BACKBONES = {
    "timm": {"use": "timm", "name": "resnet10t", "options": {"channels": [8, 8, 16, 16]}},
    "ibot": {"use": "timm", "name": "test_vit", "features": "token"},
    "small_alexnet": {"use": "small_alexnet", "size": 16},
    "vit_moco_v3": {
        "use": "vit_moco_v3",
        "name": "test_vit",
        "heads": 2,
        "options": {"img_size": 32},
    },
}


def small(path):
    """The tables of a recipe with small numbers and a few images."""
    tables = tomllib.loads(path.read_text())
    for name, changes in SMALL.items():
        tables[name] |= changes
    tables["dataset"] = FakeDataset(20)
    masks = tables["method"]["use"] == "ibot"
    tables["backbone"] = BACKBONES["ibot" if masks else tables["backbone"]["use"]]
    tables["transform"]["size"] = tables["backbone"].get("size", 32)
    if "small_size" in tables["transform"]:
        tables["transform"]["small_size"] = 16
    tables["fit"] |= {"precision": "32-true", "nodes": 1}
    if "queue_size" in tables["method"]:
        tables["method"]["queue_size"] = 12
    if "milestones" in tables["fit"].get("schedule", {}):
        tables["fit"]["schedule"]["milestones"] = [1]
    for evaluator in tables.get("evaluate", []):  # which also measure before training
        evaluator |= {"k": 3} if "k" in evaluator else {}
    condition = tables.get("condition", {})
    condition |= {"k": 3} if "k" in condition else {}
    condition |= {"columns": ["label", "word"]} if "columns" in condition else {}
    return tables


@pytest.mark.parametrize(
    "path",
    [  # cacr_large has the same objective
        pytest.param(path, marks=[pytest.mark.slow] * (path.stem == "cacr_small"))
        for path in RECIPES
    ],
    ids=lambda path: path.stem,
)
def test_a_recipe_trains(path, tmp_path):
    pipeline = ccl.Pipeline.from_dict(small(path))
    seed_everything(0)  # as at the start of a run
    before = {k: v.clone() for k, v in pipeline.build().method.state_dict().items()}
    run = pipeline.fit(out=tmp_path / "run", seed=0, progress=False)
    saved = torch.load(run.path / "weights.pt", weights_only=True)
    after = saved["method"]
    assert saved["step"] == 4
    assert all(v.isfinite().all() for v in after.values())
    changed = {k for k, v in before.items() if not torch.equal(after[k], v)}
    assert any(name.startswith("head.") for name in changed)
    fixed = {"backbone.model.patch_embed.proj.weight", "backbone.model.pos_embed"}
    if path.stem == "moco_v3":
        assert not fixed & changed
    if path.stem == "dinov2":
        assert {"mask_token", *fixed} <= changed

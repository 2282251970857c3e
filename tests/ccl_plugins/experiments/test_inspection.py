"""What `ccl inspect` finds in data before anything is trained."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.inspection import _columns, inspect

SITES = ["Köln", "Köln ", "Bonn"]


def write(folder: Path, count: int = 60, damaged: bool = False) -> Path:
    """A table of images, half of which are for training, with a condition that goes with the label."""
    draw = random.Random(0)
    rows = ["image,label,part,site,scanner,patient_id,age"]
    for i in range(count):
        Image.new("RGB", (16, 16), (4 * i, 9, 9)).save(folder / f"{i}.png")
        label, part = i % 2, "train" if i < count * 2 // 3 else "test"
        scanner = label if draw.random() < 0.95 else 1 - label
        patient = i % 20
        age = "" if i == 3 else f"{40 + 10 * label + draw.random()}"
        rows.append(f"{i}.png,{label},{part},{SITES[i % 3]},{scanner},p{patient},{age}")
    if damaged:
        (folder / "5.png").write_bytes((folder / "5.png").read_bytes()[:40])
    (folder / "images.csv").write_text("\n".join(rows) + "\n", "utf-8")
    (folder / "run.toml").write_text(TOML, "utf-8")
    return folder / "run.toml"


TOML = """
dataset = {use = "table", path = "images.csv", split = "part"}
backbone = "lenet5"
method = {use = "simclr", hidden = 8, dim = 4}
transform = {use = "simclr", size = 32}
objective = {use = "fair_cclk", kernel = {use = "rbf", scale = 0.1}}
condition = {use = "column", name = "age"}
evaluate = ["knn"]
fit = {epochs = 2, batch_size = 8, workers = 0}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_columns_sizes_and_association_are_told_and_what_a_step_costs(file, capsys):
    text = TOML.replace('name = "age"', 'name = "age", missing = "ignore"')
    file.write_text(text.replace('"fair_cclk"', '"weaklysup_cclk"'))
    assert main(["inspect", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["column"]: row for row in found["columns"]}
    assert found["samples"] == {"train": 40, "test": 20}
    assert rows["label"]["least"] == 20
    assert rows["label"]["chance"] == 0.5
    assert rows["site"]["values"] == 3
    assert rows["age"]["missing"] == 1
    assert rows["age"]["of label"] > 0.9
    assert rows["scanner"]["of label"] == pytest.approx(0.6, abs=0.4)
    notes = "\n".join(found["notes"])
    assert "'Köln' and 'Köln '" in notes
    assert "'patient_id' looks like a group" in notes
    assert "the condition 'age' and the label go together" in notes
    assert "RBF on 'condition'" in notes or "on condition 'condition'" in notes
    assert found["step"]["seconds"] > 0
    assert found["step"]["hours"] == pytest.approx(found["step"]["seconds"] * 10 / 3600)
    assert found["step"]["gigabytes"] > 0.1
    assert sorted(each.name for each in Path().iterdir() if each.suffix != ".png") == [
        "images.csv",
        "run.toml",
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_image_that_cannot_be_read_is_named_with_its_cure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, damaged=True)
    file.write_text(TOML.replace('"age"', '"scanner"').replace('"fair_cclk"', '"weaklysup_cclk"'))
    assert main(["inspect", str(file)]) == 0
    out = capsys.readouterr().out
    assert "1 of 40 images of train cannot be read" in out
    assert "5.png" in out
    assert 'on_error = "skip"' in out
    assert "a step takes" not in out


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_needs_more_samples_than_a_few_steps_have_is_noted(file, capsys):
    text = TOML.replace('{use = "column", name = "age"}', '{use = "clusters", k = 20}')
    text = text.replace('{use = "fair_cclk", kernel = {use = "rbf", scale = 0.1}}', '"cl_infonce"')
    file.write_text(text.replace("batch_size = 8", "batch_size = 3"))
    assert main(["inspect", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["step"]
    assert "a few of the samples do not do: k=20 clusters" in "\n".join(found["notes"])


def test_of_a_label_that_is_a_number_nothing_is_told():
    generator = torch.Generator().manual_seed(0)
    columns = {name: torch.randn(50, generator=generator) for name in ("label", "age")}
    split = SimpleNamespace(metadata=columns)
    found = _columns(dict.fromkeys(columns, "continuous"), split, split)
    assert [row["of label"] for row in found] == [None, None]


def test_what_would_keep_it_from_training_is_a_mistake(file, capsys):
    for right, wrong, message in (
        ("batch_size = 8", "batch_size = 64", "64"),
        ("size = 32", "size = 4", "32, 32"),
        ('name = "site"', 'name = "size"', "'size'"),
        ('name = "site"', 'name = "age"', "condition 'condition' has missing"),
    ):
        delta = TOML.replace('"age"', '"site"').replace('{use = "rbf", scale = 0.1}', '"delta"')
        file.write_text(delta.replace(right, wrong, 1))
        assert main(["inspect", str(file), "--quick"]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_time_of_a_run_is_that_of_its_steps(file):
    """With max_steps it ends before its epochs, of 10 steps here."""
    text = TOML.replace("epochs = 2", "epochs = 2, max_steps = 4").replace('"age"', '"site"')
    pipeline = ccl.Pipeline.from_dict(
        tomllib.loads(text.replace('{use = "rbf", scale = 0.1}', '"delta"'))
    )
    step = inspect(pipeline).step
    assert step["hours"] == pytest.approx(step["seconds"] * 4 / 3600)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_condition_of_one_value_or_of_one_for_each_sample_is_noted(file, capsys):
    table = Path("images.csv").read_text().splitlines()
    more = [f"{row},{'batch,file' if not i else f'b,f{i}'}" for i, row in enumerate(table)]
    Path("images.csv").write_text("\n".join(more))
    for column, message in (("batch", "is constant"), ("file", "is unique per sample")):
        text = TOML.replace('"age"', f'"{column}"').replace('{use = "rbf", scale = 0.1}', '"delta"')
        file.write_text(text)
        assert main(["inspect", str(file), "--quick"]) == 0
        assert f"condition 'condition' {message}" in capsys.readouterr().out


def test_what_is_healthy_has_a_line_for_its_kernel_alone():
    pipeline = ccl.Pipeline(
        dataset="color_digits",
        backbone="lenet5",
        method=ccl.method("simclr", hidden=8, dim=4),
        transform=ccl.transform("simclr", size=32),
        objective=ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale="median")),
        condition=ccl.condition("column", name="color"),
    )
    found = inspect(pipeline, quick=True)
    assert not found.step
    (note,) = found.notes
    assert "sensible scales are" in note


def test_files_are_said_by_kind_and_pages_and_those_that_are_passed_over(tmp_path, capsys):
    for row in range(16):
        pages = [
            Image.fromarray(
                np.random.default_rng(5 * row + p).integers(0, 4096, (32, 32)).astype("u2")
            )
            for p in range(3)
        ]
        path = tmp_path / "plates" / "ab"[row % 2] / f"{row}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        pages[0].save(path, save_all=True, append_images=pages[1:])
    (path.parent / "preview.gif").touch()
    text = """
dataset = {use = "image_folder", root = "ROOT", test_fraction = 0.5, MORE}
transform = {use = "simclr", size = 32}
backbone = "lenet5"
objective = "infonce"

[fit]
epochs = 1
batch_size = 4
workers = 0
"""
    file = tmp_path / "run.toml"
    text = text.replace("ROOT", str(tmp_path / "plates"))
    file.write_text(text.replace("MORE", 'mode = "all", levels = [0, 4095]'))
    assert main(["inspect", str(file), "--json"]) == 0
    notes = "\n".join(json.loads(capsys.readouterr().out)["notes"])
    assert "images of train: 8 of uint16, 3 channels in 3 pages" in notes
    assert "passes over images in" in notes
    assert "1 that end in .gif" in notes
    file.write_text(text.replace("MORE", 'mode = "L", levels = [0, 4095]'))
    assert main(["inspect", str(file), "--json"]) == 0
    notes = "\n".join(json.loads(capsys.readouterr().out)["notes"])
    assert "8 of 8 images of train cannot be read: " in notes
    assert "it has 3 pages: page = 0 reads the first" in notes
    file.write_text(text.replace("MORE", 'mode = "L", levels = [0, 4095], page = 2'))
    assert main(["inspect", str(file), "--json", "--quick"]) == 0

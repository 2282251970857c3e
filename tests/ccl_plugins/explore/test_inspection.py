"""What `ccl inspect` finds in data before anything is trained."""

from __future__ import annotations

import json
import math
import random
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.datasets import image_files
from ccl_plugins.explore import images_seen
from ccl_plugins.explore.inspection import (
    Faulty,
    _columns,
    inspect,
    inspect_file,
    neighbors_in_batches,
)
from ccl_plugins.kernels import RBF, Delta, Product
from ccl_plugins.protocols import Table
from ccl_plugins.training.kernel_check import KernelReading

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

BY_SITE = TOML.replace('"age"', '"site"').replace('{use = "rbf", scale = 0.1}', '"delta"')
"""The same with a condition that every image has, of classes."""


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
    assert main(["inspect", str(file)]) == 2
    out, err = capsys.readouterr()
    assert "1 of 40 images of train cannot be read" in out
    assert "5.png" in out
    assert 'on_error = "skip"' in out
    assert "a step takes" in out
    assert "the run would stop at an image that cannot be read" in err


FAULTS = {
    "size = 32": ("size = 4", "32, 32"),
    "batch_size = 8": ("batch_size = 64", "batch_size must be 1 to 39"),
    'split = "part"': ('split = "part", group = "patient_id"', "values of the group 'patient_id'"),
    '["knn"]': ('["knn", {use = "linear", column = "nothing"}]', "'nothing'"),
    '"age"}': ('"age", missing = "error"}', "condition 'condition' has missing"),
}
"""What a pipeline has in place of a value, and what is said of it; none depends on another."""


@pytest.mark.parametrize("broken", ["damaged", "missing"])
def test_one_bad_image_hides_no_other_fault_and_no_fault_another(
    tmp_path, monkeypatch, capsys, broken
):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, damaged=True)
    if broken == "missing":
        Path("5.png").unlink()
    text = TOML
    for right, (wrong, _) in FAULTS.items():
        assert right in text
        text = text.replace(right, wrong)
    file.write_text(text)
    assert main(["inspect", str(file), "--json"]) == 2
    out, err = capsys.readouterr()
    found = json.loads(out)
    for _, message in FAULTS.values():
        assert err.count(message) == 1
        assert message in "\n".join(found["faults"])
    assert "an image that cannot be read, as the notes say" in err
    assert "1 of 40 images of train cannot be read: 5.png" in "\n".join(found["notes"])
    assert found["columns"]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('"lenet5"', '"lenet"', "run.toml: backbone: no backbone 'lenet'"),
        ('"age"', '"weight"', "no column 'weight'"),
        ("batch_size = 8", "batchsize = 8", "'batchsize'"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_pipeline_that_cannot_be_composed_hides_nothing_of_its_data(
    tmp_path, monkeypatch, capsys, right, wrong, message
):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, damaged=True)
    file.write_text(TOML.replace('"part"', '"part", group = "patient_id"').replace(right, wrong))
    assert main(["inspect", "run.toml"]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "values of the group 'patient_id' are in both" in err
    assert "1 of 40 images of train cannot be read" in out
    assert err.count("run.toml: run.toml") == 0


def test_without_a_data_set_the_mistake_is_told_alone(file, capsys):
    for right, wrong in (
        ('"table"', '"tables"'),
        ("dataset =", "data ="),
        ("dataset", "= ["),
        ("images.csv", "others.csv"),
    ):
        file.write_text(TOML.replace(right, wrong))
        assert main(["inspect", str(file)]) == 2
        out, err = capsys.readouterr()
        assert not out
        assert err.count("ccl: ") == 1


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('["knn"]', '[{use = "knn", k = 50}]', "k=50 neighbors of only 40"),
        ("workers = 0", "workers = 0, devices = 3", "cannot be shared by 3 processes"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_training_would_refuse_first_is_told(file, capsys, right, wrong, message):
    assert right in BY_SITE
    file.write_text(BY_SITE.replace(right, wrong))
    assert main(["inspect", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_every_condition_that_cannot_be_fitted_is_named(file, capsys):
    table = Path("images.csv").read_text().splitlines()
    more = [f"{row},{'dose' if not i else '' if i == 4 else i}" for i, row in enumerate(table)]
    Path("images.csv").write_text("\n".join(more))
    both = "\n".join(
        f"[conditions.{name}]\nuse = 'column'\nname = '{column}'"
        for name, column in (("old", "age"), ("dose", "dose"))
    )
    text = TOML.replace('condition = {use = "column", name = "age"}\n', "")
    file.write_text(f"{text}\n{both}".replace('use = "fair_cclk"', 'use = "fair_cclk", on = "old"'))
    assert main(["inspect", str(file), "--quick"]) == 2
    err = capsys.readouterr().err
    assert "condition 'old' has missing" in err
    assert "condition 'dose' has missing" in err


def noise(seed: int, size: tuple[int, int] = (16, 16)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 250, (*size, 3)).astype("u1"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_images_that_tell_nothing_and_equal_ones_are_counted_with_examples(file):
    for i in range(60):
        noise(i).save(f"{i}.png")
    Image.new("RGB", (16, 16)).save("0.png")
    Image.new("RGB", (16, 16), (9, 9, 200)).save("1.png")
    white = np.array(noise(2))
    white[:9] = 255
    Image.fromarray(white).save("2.png")
    for equal in (12, 13, 44):
        noise(10).save(f"{equal}.png")
    noise(99, (20, 30)).save("50.png")
    text = BY_SITE.replace("batch_size = 8", "batch_size = 64")
    pipeline = ccl.Pipeline.from_dict(tomllib.loads(text))
    with pytest.raises(Faulty, match="64") as raised:
        inspect(pipeline)
    found = raised.value.inspection
    assert found.looked == {"train": 40, "test": 20}
    notes = "\n".join(found.notes)
    for line in (
        "1 of 40 images of train are black, such as 0.png",
        "1 of 40 images of train are of one color, such as 1.png",
        "1 of 40 images of train are saturated: half of their numbers or more are 255, such as 2.png",
        "1 of 40 images of train repeat another one, with the same label, such as 12.png, which equals"
        " 10.png",
        "1 of 40 images of train repeat another one, with another label, such as 13.png, which equals"
        " 10.png",
        "1 of 20 images of test are in train too, with the same label, such as 44.png, which equals 10.png",
        "images of test have 2 sizes, from 16x16 (40.png) to 30x20 (50.png)",
    ):
        assert line in notes


def of_lists(train: list[Any], test: list[Any], batch_size: int = 4, **given: Any) -> ccl.Pipeline:
    """A pipeline of images in lists."""
    usual = {
        "backbone": "lenet5",
        "method": ccl.method("simclr", hidden=8, dim=4),
        "transform": ccl.transform("simclr", size=32),
        "objective": "infonce",
        "fit": {"epochs": 1, "batch_size": batch_size, "workers": 0},
    }
    return ccl.Pipeline(
        **{**usual, **given},
        dataset=ccl.dataset(
            "torch",
            train=train,
            test=test,
            metadata={"label": [i % 2 for i in range(len(train))]},
            test_metadata={"label": [i % 2 for i in range(len(test))]},
        ),
    )


def test_images_that_are_no_files_are_looked_at_too():
    images = [noise(i) for i in range(8)]
    images[3], images[5] = images[0], Image.new("RGB", (16, 16))
    found = inspect(of_lists(images, [noise(8), images[1]], batch_size=2))
    assert found.step
    notes = "\n".join(found.notes)
    assert "images of train are black, such as sample 5" in notes
    assert "with another label, such as sample 3, which equals sample 0" in notes
    assert "1 of 2 images of test are in train too, with the same label, such as sample 1" in notes


def test_samples_that_are_no_images_go_through_the_networks_and_a_step():
    features = [torch.rand(6) for _ in range(16)]
    pipeline = of_lists(
        features, features[:2], transform="noise", backbone=ccl.backbone("mlp", in_features=6)
    )
    found = inspect(pipeline)
    assert found.step
    assert not found.looked
    wrong = of_lists(
        features, features[:2], transform="noise", backbone=ccl.backbone("mlp", in_features=5)
    )
    with pytest.raises(Faulty, match="give it in_features=6"):
        inspect(wrong)


def test_of_many_images_that_are_no_files_some_are_looked_at_and_it_is_said(monkeypatch):
    monkeypatch.setattr(images_seen, "MOST", 5)
    found = inspect(of_lists([noise(i) for i in range(12)], [noise(12), noise(13)]))
    assert found.looked == {"train": 5, "test": 2}
    assert "5 of 12 images of train were checked, evenly spaced" in found.notes


def test_an_image_unlike_the_first_is_tried_too():
    """The transform has a mean of three numbers."""
    images = [torch.zeros(3, 16, 16, dtype=torch.uint8) + i for i in range(8)]
    images[6] = torch.ones(5, 16, 16, dtype=torch.uint8)
    for train, test in ((images, images[:2]), (images[:6], images[5:7])):
        with pytest.raises(Faulty, match="5 channels"):
            inspect(of_lists(train, test))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_each_image_is_decoded_once_to_be_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, damaged=True)
    read: list[str] = []
    look_into = image_files.look_into
    monkeypatch.setattr(
        image_files,
        "look_into",
        lambda path, **more: (read.append(path), look_into(path, **more))[1],
    )
    text = TOML.replace('"part"', '"part", on_error = "skip"').replace("= 8\nw", "= 64\nw")
    file.write_text(text.replace("batch_size = 8", "batch_size = 64"))
    with pytest.raises(Faulty) as raised:
        inspect_file(file)
    assert sorted(read) == sorted(f"{i}.png" for i in range(60))
    assert raised.value.inspection.looked == {"train": 39, "test": 20}


def test_quick_looks_at_no_image_but_the_first(file, monkeypatch, capsys):
    monkeypatch.setattr(image_files, "look_into", None)
    for i in range(1, 60):
        Path(f"{i}.png").write_bytes(b"")
    file.write_text(BY_SITE)
    assert main(["inspect", str(file), "--quick"]) == 0
    assert "looked at" not in capsys.readouterr().out


def test_values_are_set_as_for_training(file, capsys):
    file.write_text(BY_SITE)
    assert main(["inspect", str(file), "--quick", "--set", "fit.batch_size=64"]) == 2
    assert "batch_size must be 1 to 40" in capsys.readouterr().err
    assert main(["inspect", str(file), "--quick", "--set", "fit.batchsize=64"]) == 2
    assert "'batchsize'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_needs_more_samples_than_a_few_steps_have_is_noted(file, capsys):
    text = TOML.replace('{use = "column", name = "age"}', '{use = "clusters", k = 20}')
    text = text.replace('{use = "fair_cclk", kernel = {use = "rbf", scale = 0.1}}', '"cl_infonce"')
    file.write_text(text.replace("batch_size = 8", "batch_size = 3"))
    assert main(["inspect", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["step"]
    assert "it would need more samples: k=20 clusters" in "\n".join(found["notes"])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("others", ["", '"site"'])
def test_data_without_a_label_have_no_row_for_it(file, capsys, others):
    given = f'split = "part", label = "", columns = [{others}]'
    text = BY_SITE.replace('split = "part"', given)
    text = text.replace('{use = "column", name = "site"}', '"instance"')
    file.write_text(text.replace('"knn"', '"rankme"'))
    assert main(["inspect", str(file), "--quick"]) == 0
    told = capsys.readouterr().out
    assert "40 train samples, 20 test samples, none of them with a label" in told
    assert "\nlabel " not in told
    assert "(none)" not in told
    assert bool(re.search(r"^site +categorical +3 ", told, re.MULTILINE)) == bool(others)


def test_of_a_label_that_is_a_number_nothing_is_told():
    generator = torch.Generator().manual_seed(0)
    columns = {name: torch.randn(50, generator=generator) for name in ("label", "age")}
    split = SimpleNamespace(metadata=columns)
    found = _columns(dict.fromkeys(columns, "continuous"), split, split)
    assert [row["of label"] for row in found] == [None, None]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_time_of_a_run_is_that_of_its_steps(file):
    """With max_steps it ends before its epochs, of 10 steps here."""
    text = BY_SITE.replace("epochs = 2", "epochs = 2, max_steps = 4")
    step = inspect(ccl.Pipeline.from_dict(tomllib.loads(text))).step
    assert step["hours"] == pytest.approx(step["seconds"] * 4 / 3600)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_condition_of_one_value_or_of_one_for_each_sample_is_noted(file, capsys):
    table = Path("images.csv").read_text().splitlines()
    more = [f"{row},{'batch,file' if not i else f'b,f{i}'}" for i, row in enumerate(table)]
    Path("images.csv").write_text("\n".join(more))
    for column, message in (("batch", "is constant"), ("file", "is unique per sample")):
        file.write_text(BY_SITE.replace('"site"', f'"{column}"'))
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
    kernel, batches = found.notes
    assert "sensible scales are" in kernel
    assert batches.startswith("effective neighbors per anchor in a batch, by RBF on 'condition': ")
    assert "alike" not in batches


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (Delta(), ("site",)),
        (RBF(scale=0.5), ("age",)),
        (Product(on={"age": RBF(scale=0.5), "site": Delta()}), ("age", "site")),
    ],
)
def test_neighbors_in_batches_are_those_of_a_loop(kernel, names):
    draw = torch.Generator().manual_seed(0)
    site, age = torch.randint(4, (60,), generator=draw), torch.randn(60, 1, generator=draw)
    missing = {"age": torch.arange(60) % 7 == 3, "site": torch.arange(60) == 5}
    tables = {"age": Table(age, {}), "site": Table(site, {})}
    drawn = [torch.randperm(60, generator=draw)[:16] for _ in range(3)]
    found = []
    for batch in drawn:
        kept = [int(i) for i in batch if not any(missing[name][i] for name in names)]
        for i in kept:
            weights = []
            for j in (j for j in kept if j != i):
                weight = 1.0
                if "age" in names:
                    weight *= math.exp(-(float(age[i] - age[j]) ** 2) / 0.5)
                if "site" in names:
                    weight *= float(site[i] == site[j])
                weights.append(weight)
            squares = sum(w * w for w in weights)
            found.append(sum(weights) ** 2 / squares if squares else 0.0)
    number = neighbors_in_batches(
        KernelReading(kernel, names),
        _Tables(tables, missing),
        SimpleNamespace(batches=lambda epoch: iter(drawn)),
    )
    torch.testing.assert_close(number, sum(found) / len(found), rtol=1e-5, atol=0)


class _Tables(dict):
    def __init__(self, tables, missing):
        super().__init__(tables)
        self.variables = {name: SimpleNamespace(missing=lost) for name, lost in missing.items()}


def test_batches_of_unlike_samples_are_said_and_those_of_a_sampler_for_them_are_not(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text = BY_SITE.replace('"site"', '"patient_id"').replace("batch_size = 8", "batch_size = 4")
    (line,) = _of_batches(write(tmp_path), text)
    assert "hardly two samples of a batch are alike: take a sampler that puts similar" in line
    (line,) = _of_batches(write(tmp_path), 'sampler = "same_condition"\n' + BY_SITE)
    assert line.endswith(": 7.0")


def _of_batches(file, text):
    file.write_text(text, "utf-8")
    notes = inspect_file(file, quick=True).notes
    return [note for note in notes if note.startswith("effective neighbors per anchor")]


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
    assert main(["inspect", str(file), "--json"]) == 2
    notes = "\n".join(json.loads(capsys.readouterr().out)["notes"])
    assert "8 of 8 images of train cannot be read: " in notes
    assert "it has 3 pages: page = 0 reads the first" in notes
    file.write_text(text.replace("MORE", 'mode = "L", levels = [0, 4095], page = 2'))
    assert main(["inspect", str(file), "--json", "--quick"]) == 0

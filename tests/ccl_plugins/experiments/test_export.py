"""What is exported: timm gives the same features from it."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import shutil
import subprocess
import sys

import pytest
import timm
import torch
from support.imports import ROOT

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.export import ADAPTERS, EXPORTED, PROGRAM, describe, export
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile

BACKBONES = {
    "resnet": ccl.backbone(
        "timm", name="resnet10t", options={"channels": [8, 8, 16, 16]}, freeze=1
    ),
    "vit": ccl.backbone(
        "vit_moco_v3", name="test_vit", heads=2, options={"img_size": 32, "depth": 2}
    ),
}


def train(folder, backbone, method):
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset("subset", of="color_digits", train=64, test=32),
        backbone=backbone,
        method=method,
        objective="infonce",
        transform=ccl.transform("moco_v2", size=32, blur=0.0, jitter=0.0, gray=0.0, flip=0.0),
    )
    return pipeline.fit(out=folder, epochs=1, batch_size=32, workers=0, progress=False)


@pytest.fixture(scope="module", params=BACKBONES)
def run(request, tmp_path_factory):
    method = ccl.method("moco_v3", hidden=16, dim=8, momentum=0.5)
    return train(tmp_path_factory.mktemp("run"), BACKBONES[request.param], method)


def assert_same_features(model, run):
    images = ccl.create("dataset", "color_digits")("test").images[:5]
    expected = run.encode(images)
    with torch.no_grad():
        found = model.eval()(run.transform.plain(images))
    torch.testing.assert_close(found, expected)
    assert expected.std(0).max() > 0


def test_timm_loads_the_weights_by_name_and_by_folder(run, tmp_path, capsys):
    assert main(["export", str(run.path), "--format", "timm", "--out", str(tmp_path)]) == 0
    assert "local-dir:" in capsys.readouterr().out
    config = json.loads((tmp_path / "config.json").read_text())
    by_name = timm.create_model(
        config["architecture"],
        num_classes=0,
        checkpoint_path=str(tmp_path / "model.safetensors"),
        **config["model_args"],
    )
    by_folder = timm.create_model(f"local-dir:{tmp_path}", pretrained=True)
    for model in (by_name, by_folder):
        assert_same_features(model, run)


def test_files_that_are_of_no_export_are_not_replaced(run, tmp_path):
    """As the README of the folder where ccl runs, the checksums of a run, or another model."""
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "model").mkdir()
    for name in ("README.md", "model.safetensors"):
        (tmp_path / "model" / name).write_text("mine")
    others = ((tmp_path, "README.md"), (run.path, "SHA256SUMS"))
    for folder, name in (*others, (tmp_path / "model", "model.safetensors")):
        before = (folder / name).read_bytes()
        with pytest.raises(ValueError, match=f"{name}, which no export wrote"):
            run.export(folder)
        assert (folder / name).read_bytes() == before
    (tmp_path / "README.md").unlink()
    for _ in range(2):
        run.export(tmp_path)


def test_the_config_says_what_it_is(run):
    folder = run.export()
    assert folder == run.path / "timm"
    config = json.loads((folder / "config.json").read_text())
    assert config["ccl_plugins"]["objective"] == run.record["objective"]
    assert config["num_features"] == run.encode(torch.zeros(1, 3, 32, 32).byte()).shape[1]
    images = config["pretrained_cfg"]
    assert images["input_size"] == [3, 32, 32]
    torch.testing.assert_close(images["mean"], [0.485, 0.456, 0.406])
    prepared = timm.data.resolve_data_config(pretrained_cfg=images)
    assert (prepared["crop_pct"], prepared["input_size"]) == (1.0, [3, 32, 32])
    others = {PROGRAM, *ADAPTERS}
    assert {path.name for path in folder.iterdir()} == {*EXPORTED} - others
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert done.stdout == b"model.safetensors: OK\nconfig.json: OK\n"


def test_a_wrong_bit_in_exported_weights_is_noticed(run, tmp_path):
    file = export(run, tmp_path) / "model.safetensors"
    choice = run.pipeline.choices["backbone"]
    again = {**choice.params, "checkpoint_path": str(file)}
    ccl.create("backbone", choice.spec.id, **again)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"model\.safetensors is damaged: it does not have its"):
        ccl.create("backbone", choice.spec.id, **again)


def test_an_export_is_adapted_to_classes(run):
    model = timm.create_model(f"local-dir:{export(run)}", pretrained=True, num_classes=7).eval()
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    weights = run.backbone.model.state_dict()
    for name, tensor in weights.items():
        torch.testing.assert_close(model.state_dict()[name], tensor)


VIT = {
    "name": "vit_small_patch16_dinov3",
    "options": {"embed_dim": 16, "depth": 1, "num_heads": 2},
}


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (
            ccl.backbone.lenet5(),
            r"has the backbone lenet5\(.*\), which timm does not have",
        ),
        (
            ccl.backbone("timm", name="resnet18", stem="cifar"),
            "stem='cifar', which no model of timm has: the format 'torch' takes any backbone",
        ),
        (
            ccl.backbone("timm", **VIT, features="token"),
            "features='token', which timm pools in another way: the format 'torch' takes any",
        ),
    ],
)
def test_a_backbone_that_timm_does_not_have_is_refused(backbone, message, tmp_path, capsys):
    pipeline = ccl.Pipeline(dataset="color_digits", backbone=backbone, objective="infonce")
    with pytest.raises(ValueError, match=message):
        export(FakeRun(pipeline, tmp_path), format="timm")
    assert not any(tmp_path.iterdir())


class FakeRun:
    """A run that was not trained."""

    def __init__(self, pipeline, path):
        self.recorded, self.path, self.record = pipeline, path, pipeline.to_dict()
        self.dataset, self.transform = pipeline.dataset, pipeline.transform
        self.folder = RunFolder(path)
        self.backbone = pipeline.build().method.backbone
        self.backbone.train()(torch.randn(8, 3, 32, 32))  # batch statistics of its own
        self.backbone.eval()


SMALL = {"channels": [8, 8, 16, 16]}
SHALLOW = {**SMALL, "layers": [1, 1, 1, 1]}
ANY_BACKBONE = {
    "lenet5": ccl.backbone("lenet5"),
    "mlp": ccl.backbone("mlp", in_features=3 * 32 * 32, hidden=[8, 8]),
    "cifar stem": ccl.backbone("timm", name="resnet18", stem="cifar", options=SHALLOW),
    "tokens": ccl.backbone("timm", **VIT, features="both"),
    "timm": ccl.backbone("timm", name="resnet10t", options=SMALL),
}


def fake(backbone, folder):
    views = ccl.transform("simclr", size=32)
    pipeline = ccl.Pipeline(
        dataset="color_digits", backbone=backbone, objective="infonce", transform=views
    )
    return FakeRun(pipeline, folder)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Each backbone, its export, images and their features in a process without this library.

    The process, one for all, follows the lines of each export's README.
    """
    runs, code = {}, ["import os, sys; sys.modules['ccl_plugins'] = sys.modules['registry'] = None"]
    for name, backbone in ANY_BACKBONE.items():
        run = fake(backbone, tmp_path_factory.mktemp("run"))
        folder = export(run)
        images = torch.randn(4, 3, 32, 32)
        torch.save(images, folder / "images.pt")
        lines = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)[1]
        lines = re.sub(r"torch\.zeros\(2, 3, 32, 32\)", 'torch.load("images.pt")', lines)
        code += [f"os.chdir({str(folder)!r})", f"exec({lines!r}, found := {{}})"]
        code += ["found['torch'].save(found['features'], 'features.pt')"]
        runs[name] = run, folder, images
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return runs


@pytest.mark.parametrize("name", ANY_BACKBONE)
def test_an_export_computes_equal_features_in_a_process_without_this_library(name, exported):
    run, folder, images = exported[name]
    assert folder == run.path / ("timm" if name == "timm" else "torch")
    with torch.no_grad():
        expected = run.backbone(images)
    torch.testing.assert_close(torch.load(folder / "features.pt"), expected)
    assert expected.std(0).max() > 0
    config = json.loads((folder / "config.json").read_text())
    assert config["num_features"] == expected.shape[1]
    sums = (folder / "SHA256SUMS").read_text()
    assert ("backbone.pt2" in sums) == (name != "timm")


@pytest.mark.parametrize("name", ANY_BACKBONE)
def test_an_export_has_no_path_of_this_machine(name, exported):
    _, folder, _ = exported[name]
    for file in folder.iterdir():
        assert not [each for each in (str(ROOT), sys.prefix) if each.encode() in file.read_bytes()]


def test_a_path_in_the_description_of_an_export_is_its_last_part(tmp_path):
    run = fake(ANY_BACKBONE["lenet5"], tmp_path)
    run.record["backbone"]["checkpoint_path"] = "/home/alice/weights.pt"
    assert describe(run, "torch")["ccl_plugins"]["backbone"]["checkpoint_path"] == "weights.pt"


def test_weights_with_the_stem_for_small_images_load_into_timm_as_the_page_says(exported, tmp_path):
    _, made, _ = exported["cifar stem"]
    folder = shutil.copytree(made, tmp_path / "small")
    page = (ROOT / "docs" / "how-to" / "share-a-model.md").read_text()
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "conv1" in b)
    block = block.replace('"resnet18"', f'"resnet18", **{SHALLOW}')
    found = {}
    with contextlib.chdir(tmp_path):
        exec(block, found)
    images = torch.randn(4, 3, 32, 32)
    program = torch.export.load(folder / "backbone.pt2").module()
    with torch.no_grad():
        torch.testing.assert_close(found["model"](images), program(images))


def test_a_backbone_that_cannot_be_exported_is_named(tmp_path):
    class Branches(torch.nn.Module):
        num_features = 3

        def forward(self, x):
            return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))

    run = fake(Branches(), tmp_path)
    with pytest.raises(
        ValueError, match=r"torch\.export cannot follow the backbone local/branches"
    ):
        export(run)
    assert not any(tmp_path.iterdir())


def test_an_export_of_another_format_leaves_no_file_of_the_first(tmp_path):
    run = fake(ANY_BACKBONE["timm"], tmp_path)
    export(run, tmp_path / "both", format="torch")
    assert (tmp_path / "both" / "backbone.pt2").exists()
    export(run, tmp_path / "both", format="timm")
    assert not (tmp_path / "both" / "backbone.pt2").exists()
    assert ".eval()" in (tmp_path / "both" / "README.md").read_text()


def test_another_format_is_a_mistake_in_the_call(run, capsys):
    assert main(["export", str(run.path), "--format", "onnx"]) == 2
    assert "format must be one of 'timm', 'torch', not 'onnx'" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["timm", "torch"])
def test_an_export_that_cannot_be_written_leaves_the_old_one_whole(run, tmp_path, format):
    export(run, tmp_path, format=format)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (3000, hard)
    )  # bytes of a file, as a disk that is full
    try:
        with pytest.raises(OSError, match="could not be written; its old files are unchanged"):
            export(run, tmp_path, format=format)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    export(run, tmp_path, format="torch" if format == "timm" else "timm")
    assert (tmp_path / "backbone.pt2").exists() == (format == "timm")

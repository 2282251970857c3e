"""What is shared of a run loads without this library, and tells nothing of the machine."""

from __future__ import annotations

import getpass
import json
import runpy
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.experiments.export import README, WEIGHTS
from ccl_plugins.sharing import folder as shared_folder
from ccl_plugins.sharing.folder import CONSTANTS, FILES, LOADER, ONNX, PIPELINE, write_folder


@pytest.fixture(scope="module")
def shared(timm_run, small_run, tmp_path_factory):
    """Each run with its folder, and what was said of it."""
    found = {}
    for run in (timm_run, small_run):
        folder = tmp_path_factory.mktemp("shared") / "folder"
        found[run.path.name] = run, folder, write_folder(run, folder, license="mit")
    return found


NAMES = ["of-alice", "small"]


@pytest.fixture(scope="module")
def images():
    """Of another size than the network takes."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (5, 3, 44, 44), generator=generator, dtype=torch.uint8)


@pytest.fixture(scope="module")
def elsewhere(shared, images, tmp_path_factory):
    """The features of each folder in one process that cannot import this library."""
    work = tmp_path_factory.mktemp("elsewhere")
    torch.save(images, work / "images.pt")
    code = f"""
import os, runpy, sys
class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("ccl_plugins", "registry"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import torch
images = torch.load("images.pt")
for name, folder in {[(name, str(folder)) for name, (_, folder, _) in shared.items()]}:
    loader = runpy.run_path(f"{{folder}}/load.py")
    with torch.no_grad():
        torch.save(loader["load"]()(loader["prepare"](images)), f"{{name}}.pt")
import timm
model = timm.create_model("local-dir:{shared["of-alice"][1]}", pretrained=True).eval()
loader = runpy.run_path("{shared["of-alice"][1]}/load.py")
with torch.no_grad():
    torch.save(model(loader["prepare"](images)), "timm.pt")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return work


@pytest.mark.parametrize(("file", "name"), [*zip(NAMES, NAMES, strict=True), ("timm", "of-alice")])
def test_it_gives_the_features_of_the_run_without_this_library(
    file, name, shared, images, elsewhere
):
    expected = shared[name][0].encode(images, device="cpu")
    torch.testing.assert_close(torch.load(elsewhere / f"{file}.pt"), expected, rtol=1e-6, atol=1e-6)
    assert expected.std(0).max() > 0


@pytest.mark.parametrize("name", NAMES)
def test_its_files_are_whole_and_no_others(name, shared):
    _, folder, _ = shared[name]
    names = {file.name for file in folder.iterdir()}
    assert {WEIGHTS, LOADER, PIPELINE, README, "config.json", "SHA256SUMS"} <= names <= {*FILES}
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert done.returncode == 0
    assert done.stdout.count(b": OK") == len(names) - 1


@pytest.mark.parametrize("name", NAMES)
def test_no_file_tells_of_the_machine_or_of_an_image(name, shared):
    run, folder, _ = shared[name]
    secrets = {str(run.path.parent), str(Path.home()), sys.prefix, str(Path(ccl.__file__).parent)}
    names = {socket.gethostname(), getpass.getuser(), "ward-of-alice", "patient-"}
    secrets |= {each for each in names if len(each) > 5}  # shorter ones appear by chance
    for file in folder.iterdir():
        found = [each for each in secrets if each.encode() in file.read_bytes()]
        assert not found, file


def test_a_path_is_shortened_and_that_is_said(shared):
    _, folder, notes = shared["of-alice"]
    record = tomllib.loads((folder / PIPELINE).read_text())
    assert record["dataset"]["path"] == "images.csv"
    assert "paths in pipeline.toml are shortened to their last part: dataset.path" in notes
    assert "in `dataset.path`" in (folder / README).read_text()
    assert not any(each.startswith("paths") for each in shared["small"][2])


@pytest.mark.parametrize("name", NAMES)
def test_its_pipeline_composes_beside_the_data(name, shared, monkeypatch):
    run, folder, _ = shared[name]
    monkeypatch.chdir(run.path.parents[1])
    tables = tomllib.loads((folder / PIPELINE).read_text())
    assert not {"loggers", "monitor", "plugins"} & tables.keys()
    for table in ("objective", "method", "backbone", "transform", "conditions", "fit"):
        assert ccl.Pipeline.from_dict(tables).to_dict()[table] == run.record[table]


def test_what_is_not_a_weight_lies_in_a_file_of_its_own(small_run, tmp_path):
    tokens = ccl.backbone(
        "timm",
        name="vit_small_patch16_dinov3",
        options={"embed_dim": 16, "depth": 1, "num_heads": 2},
        features="both",
    )
    run = with_backbone(small_run, tokens.build())
    write_folder(run, tmp_path / "tokens")
    assert (tmp_path / "tokens" / CONSTANTS).exists()


def with_backbone(run, backbone):
    """A run of the same pipeline with another backbone."""
    found = ccl.load(run.path)
    found.method.backbone = backbone.eval()
    return found


class Branches(torch.nn.Module):
    """Features in two ways."""

    num_features = 3

    def forward(self, x):
        ways = (lambda x: x.mean((2, 3))), (lambda x: x.amax((2, 3)))
        return torch.cond(x.sum() > 0, *ways, (x,))


class PartlyFrozen(torch.nn.Module):
    """Features with numbers of their own, partly without gradient."""

    num_features = 3

    def forward(self, x):
        with torch.no_grad():
            mean = x.mean((2, 3)) * torch.arange(3, device=x.device)
        return mean + x.new_full((3,), float("inf")).clamp(max=1.0)


def test_a_backbone_with_branches_is_refused(small_run, tmp_path):
    with pytest.raises(ValueError, match=r"as a function of PyTorch: .*\(get_attr\); ccl export"):
        write_folder(with_backbone(small_run, Branches()), tmp_path / "folder")
    assert not any((tmp_path / "folder").iterdir())


def test_a_backbone_is_written_on_any_device(small_run, tmp_path):
    write_folder(with_backbone(small_run, PartlyFrozen()), tmp_path / "folder")
    model = runpy.run_path(str(tmp_path / "folder" / LOADER))["load"]()
    (stored,) = model.args
    there = {name: tensor.to("meta") for name, tensor in stored.items()}
    found = model.func(there, torch.zeros(2, 3, 32, 32, device="meta"))
    assert found.shape == (2, 3)
    assert found.device.type == "meta"


def test_other_features_are_noticed_before_anything_is_written(small_run, tmp_path, monkeypatch):
    from ccl_plugins.sharing import folder

    written = folder.write_weights

    def damaged(staged, run, plain):
        changed = {k: v + 1 if v.is_floating_point() else v for k, v in plain.state_dict().items()}
        kept = {k: v.clone() for k, v in plain.state_dict().items()}
        plain.load_state_dict(changed)
        written(staged, run, plain)
        plain.load_state_dict(kept)

    monkeypatch.setattr(folder, "write_weights", damaged)
    with pytest.raises(ValueError, match=r"load\.py gives other features than the run's backbone"):
        write_folder(small_run, tmp_path / "folder")
    assert not any((tmp_path / "folder").iterdir())


def test_a_folder_with_files_is_refused(small_run, tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="is not empty: name a new or an empty folder"):
        write_folder(small_run, tmp_path)
    with pytest.raises(ValueError, match="is not empty"):
        write_folder(small_run, tmp_path / "mine.txt")


def test_a_run_that_is_not_finished_is_refused(small_run, tmp_path):
    run = ccl.load(small_run.path)
    run.__dict__["progress"] = (1, 2)
    with pytest.raises(ValueError, match=r"is not finished \(step 1 of 2\): resume it"):
        write_folder(run, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.mark.filterwarnings("ignore:.*was changed; the record in")
@pytest.mark.parametrize("kind", ["objective", "backbone"])
def test_a_plug_in_that_is_gone_takes_what_it_computes(small_run, tmp_path, kind):
    folder = shutil.copytree(small_run.path, tmp_path / "run")
    file = ccl.load(folder).folder.record
    record = json.loads(file.read_text())
    record[kind]["use"] = f"{kind}:ccl-gone/lost"
    record["versions"]["ccl-gone"] = "1.0"
    file.write_text(json.dumps(record))
    run = ccl.load(folder)
    if kind == "backbone":
        with pytest.raises(ccl.PluginFailed, match=r"needs the plug-in ccl-gone 1\.0"):
            write_folder(run, tmp_path / "out")
        return
    write_folder(run, tmp_path / "out")
    assert "`lost`: its plug-in is not installed" in (tmp_path / "out" / README).read_text()


def test_without_onnx_the_file_is_left_out_and_that_is_said(small_run, tmp_path, monkeypatch):
    monkeypatch.setattr("ccl_plugins.sharing.folder.onnx_is_installed", lambda: False)
    notes = write_folder(small_run, tmp_path / "folder")
    assert notes == ['model.onnx is left out: pip install "ccl-plugins[onnx]" for it']
    assert not (tmp_path / "folder" / ONNX[0]).exists()


@pytest.mark.skipif(not shared_folder.onnx_is_installed(), reason="needs onnxscript")
@pytest.mark.parametrize("name", NAMES)
def test_onnx_gives_equal_features(name, shared):
    runtime = pytest.importorskip("onnxruntime")
    run, folder, _ = shared[name]
    images = torch.randn(3, 3, 32, 32)
    session = runtime.InferenceSession(str(folder / ONNX[0]))
    found = torch.from_numpy(session.run(None, {"images": images.numpy()})[0])
    with torch.no_grad():
        torch.testing.assert_close(found, run.backbone.cpu()(images), rtol=1e-4, atol=1e-5)

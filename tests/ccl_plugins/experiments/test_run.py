"""A run, as a user sees it: folder, record, metrics, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from support.resuming import assert_equal

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.pipeline import HELD
from ccl_plugins.experiments.record import Record
from ccl_plugins.experiments.train import RunExists, _is_finished, check_run
from ccl_plugins.files.run_folder import RunFolder

TOML = """
dataset = {use = "subset", of = "color_digits", train = 160, test = 64}
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8}
transform = {use = "simclr", size = 32, flip = 0.0, jitter = 0.0, gray = 0.0, blur = 0.0}
condition = {use = "column", name = "color"}
[objective]
use = "fair_cclk"
kernel = {use = "rbf", scale = 0.1}
[fit]
epochs = 1
batch_size = 32
workers = 0
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run of one epoch, for the tests that only look at it."""
    folder = tmp_path_factory.mktemp("runs")
    file = folder / "fair.toml"
    file.write_text(TOML)
    run = ccl.Pipeline.from_toml(file).fit(out=folder / "fair", progress=False)
    run.evaluate()
    return run


def test_a_run_holds_record_weights_checkpoints_events_and_metrics(finished):
    names = {path.name for path in finished.path.iterdir()}
    assert {"pipeline.json", "weights.pt", "checkpoints", "metrics.json"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    metrics = json.loads((finished.path / "metrics.json").read_text())
    assert set(metrics) == {"linear/top1", "knn/top1", "color/mse", "color/mse255", "color/r2"}
    assert metrics["color/mse255"] == pytest.approx(metrics["color/mse"] * 255**2)


class Brightness:
    """The mean of the color."""

    refresh = "never"
    value_type = "continuous"

    def fit(self, split, embed, previous):
        return split.metadata["color"].mean(1)


def test_a_run_with_an_object_of_ones_own_is_measured_where_it_was_trained(finished, tmp_path):
    choices = {
        k: finished.pipeline.choices[k] for k in ("dataset", "transform", "backbone", "objective")
    }
    pipeline = ccl.Pipeline(**choices, condition=Brightness(), evaluate=["knn"])
    run = pipeline.fit(epochs=1, batch_size=32, workers=0, out=tmp_path / "own", progress=False)
    assert run.evaluate().keys() == {"knn/top1"}
    again = ccl.load(run.path)
    with pytest.warns(
        UserWarning, match="condition 'condition' cannot be read back.* of a session"
    ):
        assert again.evaluate() == run.metrics
    with pytest.raises(ccl.PluginFailed, match="objects of a session"):
        _ = again.pipeline


def test_a_run_is_rebuilt_by_name(finished):
    again = ccl.load(finished.path)
    assert again.pipeline == finished.pipeline
    assert again.metrics == finished.metrics
    images = ccl.create("dataset", "color_digits")("test").images[:7]
    features = again.encode(images)
    assert features.shape == (7, 84)
    torch.testing.assert_close(features, finished.encode(images))
    torch.testing.assert_close(again.encode(list(images)), features, rtol=1e-4, atol=1e-5)


def test_of_many_runs_few_keep_their_weights_in_memory(finished):
    runs = [ccl.load(finished.path) for _ in range(HELD + 2)]
    assert {run.progress for run in runs} == {(5, 5)}
    assert sum("_weights" in vars(run) for run in runs) == HELD
    assert runs[0].versions == finished.versions


def test_a_folder_with_a_run_is_refused_and_left_alone(finished):
    before = {p: p.stat().st_mtime_ns for p in finished.path.rglob("*")}
    with pytest.raises(RunExists, match=r"already holds a run: --resume .* --overwrite"):
        finished.pipeline.fit(out=finished.path)
    with pytest.raises(ValueError, match="give only one of them"):
        finished.pipeline.fit(out=finished.path, resume=True, overwrite=True)
    with pytest.raises(ValueError, match=r"cannot be shared by 3 processes"):
        finished.pipeline.fit(out=finished.path, overwrite=True, devices=3)
    with pytest.raises(ValueError, match=r"another pipeline.*fit.seed: 0 -> 1"):
        finished.pipeline.fit(out=finished.path, resume=True, seed=1)
    assert {p: p.stat().st_mtime_ns for p in finished.path.rglob("*")} == before


def test_the_record_in_the_checkpoint_says_what_may_change(finished, tmp_path):
    """The record beside it may be of a later attempt, which was stopped before its first checkpoint."""
    shutil.copytree(finished.path, out := tmp_path / "run")
    record = dict(finished.record, fit={**finished.record["fit"], "epochs": 9, "seed": 5})
    (out / "pipeline.json").write_text(json.dumps(record))

    def resume(**settings):
        return check_run(finished.pipeline.with_settings(**settings), out, resume=True)

    for name, text in (("batch_size", "32 -> 16"), ("devices", "1 -> 2"), ("seed", "0 -> 1")):
        with pytest.raises(ValueError, match=rf"another pipeline.*fit\.{name}: {text}"):
            resume(**{name: int(text.split()[-1])})
    assert resume(epochs=3, workers=2, log_every=3, keep_last=1).point.step == 5
    (out / "pipeline.json").unlink()
    longer = finished.pipeline.with_settings(epochs=2).fit(out=out, resume=True, progress=False)
    with pytest.raises(ValueError, match=r"fit.epochs: 2 -> 1 \(there may be more epochs"):
        finished.pipeline.fit(out=longer.path, resume=True)


def test_a_run_that_went_on_is_not_finished_by_the_weights_of_before(finished, tmp_path):
    shutil.copytree(finished.path, out := tmp_path / "run")
    checked = check_run(finished.pipeline, out, resume=True)
    assert _is_finished(checked)
    further = replace(checked.point, step=checked.point.step + 1)
    assert not _is_finished(replace(checked, point=further))


def test_a_batch_larger_than_the_queue_is_refused_before_a_run_is_overwritten(finished):
    record = finished.pipeline.to_dict()
    method = {"use": "moco_v2", "hidden": 16, "dim": 8, "queue_size": 20}
    pipeline = ccl.Pipeline.from_dict({**record, "method": method})
    before = {p: p.stat().st_mtime_ns for p in finished.path.rglob("*")}
    with pytest.raises(ValueError, match="batch of 32 does not fit into the queue of 20"):
        pipeline.fit(out=finished.path, overwrite=True, progress=False)
    assert {p: p.stat().st_mtime_ns for p in finished.path.rglob("*")} == before


def test_overwriting_deletes_the_run_and_nothing_else(tmp_path, finished):
    out = tmp_path / "run"
    out.mkdir()
    (out / "checkpoints").mkdir()
    mine = [out / "notes.txt", out / "checkpoints" / "my-copy.ckpt"]
    for file in mine:
        file.write_text("mine")
    RunFolder(out).note(out / "checkpoints" / "step-00000099.ckpt")
    (out / "checkpoints" / "step-00000099.ckpt").write_text("old")
    finished.pipeline.fit(out=out, overwrite=True, progress=False)
    assert [file.read_text() for file in mine] == ["mine", "mine"]
    assert not (out / "checkpoints" / "step-00000099.ckpt").exists()


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        ccl.load(tmp_path)


def test_a_record_of_a_plug_in_that_is_not_installed_says_what_to_install(tmp_path, finished):
    record = dict(finished.record, versions={"ccl-plugins": "0.1.0", "ccl-foo": "2.3"})
    (tmp_path / "pipeline.json").write_text(json.dumps(record))
    with pytest.raises(ccl.PluginFailed, match=r"pip install ccl-foo==2\.3"):
        _ = ccl.load(tmp_path).pipeline


def test_another_version_is_one_warning(tmp_path, finished):
    record = dict(finished.record, versions={"ccl-plugins": "0.0.1"})
    (tmp_path / "pipeline.json").write_text(json.dumps(record))
    with pytest.warns(UserWarning, match=r"made with ccl-plugins 0.0.1, but .* is installed"):
        _ = ccl.load(tmp_path).pipeline


def test_train_ends_with_one_table_of_all_files(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(TOML)
    files = [str(tmp_path / "one.toml"), str(tmp_path / "two.toml")]
    out = str(tmp_path / "runs")
    assert main(["train", *files, "--out", out, "--quiet"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["METRIC", "RUN", "BEFORE", "AFTER", "CHANCE", "DIFFERENCE"]
    rows = [line.split() for line in table[1:] if f"  {out}/" in line]
    assert {"linear/top1", "color/r2"} <= {row[0] for row in rows}
    one, two = (  # value before, value after and its interval; the second has a difference too
        {row[0]: row[2:7] for row in rows if row[1] == f"{out}/{x}"} for x in ("one", "two")
    )
    assert one == two, "one seed, one result"
    assert main(["train", *files, "--out", out, "--quiet"]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main(["evaluate", f"{out}/one"]) == 0
    assert "linear/top1" in capsys.readouterr().out


def test_a_mistake_in_the_second_file_costs_no_training_of_the_first(tmp_path, capsys):
    (tmp_path / "good.toml").write_text(TOML)
    (tmp_path / "bad.toml").write_text(TOML.replace("fair_cclk", "unfair_cclk"))
    files = [str(tmp_path / "good.toml"), str(tmp_path / "bad.toml")]
    assert main(["train", *files, "--out", str(tmp_path / "runs")]) == 2
    assert "unfair_cclk" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_plug_ins_give_callbacks_and_look_at_pipelines(tmp_path, finished, monkeypatch):
    import pytorch_lightning

    steps = []

    class Count(pytorch_lightning.Callback):
        def on_train_batch_end(self, *_):
            steps.append(1)

    registry = type(ccl._registry())
    call = registry.call

    def answer(self, hook, **kwargs):
        if hook == "ccl_callbacks":
            assert kwargs["pipeline"] == finished.pipeline
            return [("ccl-plugins", [Count()])]
        return call(self, hook, **kwargs)

    monkeypatch.setattr(registry, "call", answer)
    run = finished.pipeline.fit(out=tmp_path / "run", progress=False)
    assert len(steps) == 5
    assert run.record["callbacks"] == {}, "its version is in the record already"
    assert run.record["versions"]["ccl-plugins"] == ccl.__version__
    assert ccl.load(run.path).pipeline == finished.pipeline


def test_a_resume_without_a_plug_in_says_what_to_install(tmp_path, finished, capsys):
    (tmp_path / "fair.toml").write_text(TOML.replace('"fair_cclk"', '"foo_loss"'))
    record = dict(finished.record, versions={"ccl-plugins": "0.1.0", "ccl-foo": "2.3"})
    (tmp_path / "runs" / "fair").mkdir(parents=True)
    (tmp_path / "runs" / "fair" / "pipeline.json").write_text(json.dumps(record))
    words = ["train", str(tmp_path / "fair.toml"), "--out", str(tmp_path / "runs"), "--resume"]
    assert main(words) == 2
    assert "pip install ccl-foo==2.3" in capsys.readouterr().err
    assert json.loads((tmp_path / "runs" / "fair" / "pipeline.json").read_text()) == record


def test_settings_of_the_command_line_reach_the_record(tmp_path, capsys):
    (tmp_path / "fair.toml").write_text(TOML)
    given = {"precision": "bf16-mixed", "accumulate": "2", "micro_batch": "8", "clip": "1.5"}
    given |= {"batch_size": "16", "keep_last": "1", "anchors_at_once": "16"}
    words = [word for k, v in given.items() for word in (f"--{k.replace('_', '-')}", v)]
    files = [str(tmp_path / "fair.toml"), "--out", str(tmp_path / "runs"), "--quiet"]
    with pytest.warns(UserWarning, match="micro_batch=8: the"):
        assert main(["train", *files, *words]) == 0
    fit = json.loads((tmp_path / "runs/fair/pipeline.json").read_text())["fit"]
    assert {k: str(fit[k]) for k in given} == given
    assert len(list((tmp_path / "runs/fair/checkpoints").iterdir())) == 1


@pytest.mark.parametrize("command", [["train", "--quiet"], ["inspect", "--quick"]])
def test_anchors_in_parts_are_refused_before_a_run_begins(command, tmp_path, capsys):
    text = TOML.replace('use = "fair_cclk"', 'use = "cacr"').replace("kernel = {", "# kernel = {")
    text = text.replace("condition = {", "# condition = {")
    (tmp_path / "a.toml").write_text(f"{text}anchors_at_once = 8\n")
    out = ["--out", str(tmp_path / "runs")] if command[0] == "train" else []
    assert main([command[0], str(tmp_path / "a.toml"), *command[1:], *out]) != 0
    shown = capsys.readouterr()
    assert "anchors_at_once=8: CACR takes all anchors together" in shown.err + shown.out
    assert not [*tmp_path.glob("runs/*/checkpoints")]


def test_a_run_killed_before_its_first_checkpoint_begins_anew(tmp_path, finished):
    out = tmp_path / "fair"
    out.mkdir()
    (out / "pipeline.json").write_text(json.dumps(finished.record))
    (out / "events.out.tfevents.1.killed").write_bytes(b"")
    RunFolder(out).note(out / "pipeline.json", out / "events.out.tfevents.1.killed")
    run = finished.pipeline.fit(out=out, resume=True, progress=False)
    assert not (out / "events.out.tfevents.1.killed").exists()
    assert_equal(run.parts.method.state_dict(), finished.parts.method.state_dict())
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(
        RunExists, match=r"weights\.pt is of a finished run, which has no checkpoint"
    ):
        finished.pipeline.fit(out=out, resume=True)


def test_files_and_images_of_any_mode_are_encoded_as_those_of_the_data_set(finished, tmp_path):
    pixels = ccl.create("dataset", "color_digits")("test").images[:3]
    images = [Image.fromarray(each.permute(1, 2, 0).numpy()) for each in pixels]
    expected = finished.encode(images)
    assert expected.shape == (3, 84)
    files = [tmp_path / f"{i}.png" for i in range(3)]
    for image, file in zip(images, files, strict=True):
        image.save(file)
    torch.testing.assert_close(finished.encode(files), expected)
    torch.testing.assert_close(finished.encode(list(map(str, files))), expected)
    torch.testing.assert_close(finished.encode([each.convert("RGBA") for each in images]), expected)
    with pytest.raises(
        OSError, match=r"image 1 \(from 0\), .*none\.png, cannot be read: No such file"
    ):
        finished.encode([files[0], tmp_path / "none.png"])
    torch.testing.assert_close(finished.encode([np.asarray(each) for each in images]), expected)
    for one in (str(files[0]), files[0], images[0], np.asarray(images[0])):
        with pytest.raises(ValueError, match=r"several, not one: give \[image\], not "):
            finished.encode(one)
    deep = Image.new("I;16", (32, 32), 4095)
    with pytest.raises(OSError, match="more than 8 bits: bring it to 8 bits, with the same black"):
        finished.encode([deep])


def test_images_of_16_bits_are_brought_to_8_by_the_levels_of_the_data_set(finished, tmp_path):
    run = ccl.load(finished.path)
    assert run.method is not None  # read before the record is another
    read = {"mode": "RGB", "levels": [0, 4095], "page": None}
    run.__dict__["record"] = Record({**run.record, "data": {"train": {"reading": read}}})
    image = Image.fromarray(torch.arange(1024).mul(4).reshape(32, 32).to(torch.uint16).numpy())
    image.save(tmp_path / "deep.png")
    torch.testing.assert_close(run.encode([image]), run.encode([tmp_path / "deep.png"]))
    assert not torch.allclose(run.encode([image]), run.encode([image.point(lambda x: 0)]))

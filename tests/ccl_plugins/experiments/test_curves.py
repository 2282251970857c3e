"""What a run logged, read back by name; and the tables of its conditions."""

from __future__ import annotations

import shutil
import time

import pytest
import torch
from support.damage import bits, each_wrong_bit

import ccl_plugins as ccl
from ccl_plugins.experiments.curves import curves
from ccl_plugins.files.events import event_files
from ccl_plugins.files.run_folder import RunFolder

TOML = """
dataset = {use = "subset", of = "color_digits", train = 64, test = 32}
backbone = "lenet5"
method = {use = "simclr", hidden = 16, dim = 8}
transform = {use = "simclr", size = 32, flip = 0.0, jitter = 0.0, gray = 0.0, blur = 0.0}
conditions = {color = {use = "column", name = "color"}, groups = {use = "clusters", k = 3}}
loggers = ["tensorboard", "csv"]
[objective]
use = "mixture"
objectives = [
    {use = "fair_cclk", on = "color", kernel = {use = "rbf", scale = 0.1}},
    {use = "cl_infonce", on = "groups"},
]
[fit]
epochs = 2
batch_size = 32
workers = 0
log_every = 1
[[evaluate]]
use = "knn"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    file = tmp_path_factory.mktemp("curves") / "run.toml"
    file.write_text(TOML)
    run = ccl.Pipeline.from_toml(file).fit(out=file.with_suffix(""), progress=False)
    run.evaluate()
    return run


def test_the_curves_of_a_run_have_every_scalar_by_name(run):
    found = curves(run)
    assert {"loss", "lr", "condition/groups/values", "evaluation/knn/top1"} <= found.keys()
    assert [step for step, _ in found["loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in found["evaluation/knn/top1"]] == [0, 4]
    assert found["evaluation/knn/top1"][1][1] == pytest.approx(run.metrics["knn/top1"])


def test_curves_come_from_the_runs_own_file(run, tmp_path):
    shutil.copytree(run.path, out := tmp_path / "run")
    RunFolder(out).unseal(["history.csv"])
    (out / "history.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"run has no curves: it has no history\.csv"):
        curves(ccl.load(out))

    def written(text):
        (out / "history.csv").write_text(text)
        return curves(ccl.load(out))

    text = "step,name,value\n1,loss,2.5\n2,monitor/rankme,7\n2,loss,2.25\n3,loss,nan\n"
    whole = {"loss": [(1, 2.5), (2, 2.25)], "monitor/rankme": [(2, 7.0)]}
    assert written(text) == whole
    assert written(f"{text}4,loss,1.") == whole, "the last row is not finished"
    assert written(f"{text}2,loss,2.0\n")["loss"] == [(1, 2.5), (2, 2.0)], "logged last"
    with pytest.raises(ValueError, match=r"history.csv: the first line lacks name, value"):
        written("step,loss\n1,2\n")
    with pytest.raises(ValueError, match=r"history.csv, line 2: could not convert .*'much'"):
        written("step,name,value\n1,loss,much\n")


def test_a_clock_that_went_back_changes_no_curve(run, tmp_path, monkeypatch):
    """TensorBoard reads its files by the time that their names have."""
    (tmp_path / "run.toml").write_text(TOML)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400)
    pipeline = ccl.Pipeline.from_toml(tmp_path / "run.toml")
    pipeline.fit(out=tmp_path / "run", epochs=1, progress=False).evaluate()
    monkeypatch.setattr(time, "time", now)
    again = pipeline.fit(out=tmp_path / "run", resume=True, progress=False)
    again.evaluate()
    assert [step for step, _ in curves(again)["loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in curves(again)["evaluation/knn/top1"]] == [0, 2, 4]
    names = event_files(again.path)
    assert names[-1] == max(names), "TensorBoard reads the last evaluation last"


def test_a_wrong_bit_in_what_a_run_logged_is_named(run, tmp_path):
    shutil.copytree(run.path, out := tmp_path / "run")
    path = out / "history.csv"
    for _ in each_wrong_bit(path, bits(path, 1)):
        with pytest.raises(ValueError, match=r"history\.csv is damaged"):
            curves(ccl.load(out))
        with pytest.warns(UserWarning, match=r"history\.csv is damaged.*as it is"):
            RunFolder(out).unseal(["history.csv"])  # a run that goes on
        RunFolder(out).seal(["history.csv"])
        with pytest.raises(ValueError, match=r"history\.csv is damaged"):
            curves(ccl.load(out))
    assert curves(ccl.load(out)) == curves(run)


def test_the_tables_of_a_run_are_those_of_its_newest_checkpoint(run, tmp_path):
    tables = ccl.load(run.path).condition_tables()
    assert tables.keys() == {"color", "groups"}
    train, _ = run.splits
    torch.testing.assert_close(tables["color"].values, train.metadata["color"])
    assert tables["groups"].values.unique().tolist() == [0, 1, 2]
    assert tables["groups"].extras
    shutil.copytree(run.path, out := tmp_path / "run")
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(FileNotFoundError, match=r"no checkpoint, .* 'color', 'groups'"):
        ccl.load(out).condition_tables()

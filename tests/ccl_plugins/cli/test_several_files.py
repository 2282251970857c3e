"""Several files and runs on one command line: one failure is one failure, and the table comes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from pytorch_lightning import Callback
from safetensors.torch import save_file
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.runs import train as launch

pytestmark = pytest.mark.usefixtures("in_a_folder_with_data")


def write(name, *changes):
    text = TOML
    for right, wrong in changes:
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    Path(f"{name}.toml").parent.mkdir(parents=True, exist_ok=True)
    Path(f"{name}.toml").write_text(text)
    return f"{name}.toml"


def train(*words):
    return main(["train", *words, "--quiet"])


def rows(text):
    """The rows of a printed table, as their cells by heading."""
    head, *lines = text.splitlines()
    starts = [head.index(name) for name in head.split()] + [None]
    return [
        {
            name: line[a:b].strip()
            for name, a, b in zip(head.split(), starts, starts[1:], strict=False)
        }
        for line in lines
    ]


class Fails(InfoNCE):
    """Fails in a training step.

    Args:
        how: The error.
    """

    def __init__(self, how: str = "bug") -> None:
        super().__init__()
        self.how = how

    def loss(self, pairs):
        if self.how == "exit":
            raise SystemExit("a plug-in ends the program")
        if self.how == "nan":
            return super().loss(pairs) * torch.nan
        raise RuntimeError("a bug\nof two lines")


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setattr(ccl._registry(), "_session", {})
    monkeypatch.delenv("CCL_STRICT", raising=False)
    ccl.local("objective", Fails)


def failing(name, how):
    return write(name, ('"infonce"', f'{{use = "local/fails", how = "{how}"}}'))


def test_one_failing_file_of_many_goes_on_and_the_table_comes(capsys):
    files = [write(f"f{i}") for i in range(4)]
    failing("f1", "bug")
    assert train(*files) == 1
    said = capsys.readouterr()
    found = {row["RUN"]: row for row in rows(said.out)}
    assert len(found) == 4
    finished = {run for run, row in found.items() if not row["STATE"]}
    assert finished == {f"runs/f{i}" for i in (0, 2, 3)}
    assert all(found[run]["BEFORE"] and found[run]["AFTER"] for run in finished)
    assert (
        found["runs/f1"]["STATE"]
        == "failed: RuntimeError: a bug of two lines (raised by objective local/fails)"
    )
    assert found["runs/f1"]["BEFORE"], "it was measured before it failed"
    assert 'raise RuntimeError("a bug' in said.err, "a bug keeps its traceback"
    assert "ccl: f1.toml: RuntimeError: a bug" in said.err


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("exit", "failed: SystemExit: a plug-in ends the program"),
        ("nan", "failed: the loss is not finite at step 1"),
    ],
)
def test_whatever_a_component_raises_is_one_failure(how, reason, capsys):
    assert train(failing("a", how), write("b")) == 1
    first, second = sorted(rows(capsys.readouterr().out), key=lambda row: row["RUN"])
    assert first["STATE"].startswith(reason)
    assert (second["RUN"], second["STATE"]) == ("runs/b", "")


def test_data_that_vanish_after_the_checks_are_one_failure(capsys, monkeypatch):
    calls, prepare = [], launch.prepare

    def vanishing(plan, *given):
        calls.append(plan.layout.folder.name)
        if calls == [*"abcab"]:
            raise FileNotFoundError("there is no file train.safetensors")
        return prepare(plan, *given)

    monkeypatch.setattr(launch, "prepare", vanishing)
    assert train(*(write(name) for name in ("a", "b", "c"))) == 1
    said = capsys.readouterr()
    assert {row["RUN"]: row["STATE"] for row in rows(said.out)} == {
        "runs/a": "",
        "runs/b": "failed: there is no file train.safetensors",
        "runs/c": "",
    }
    assert said.err == "ccl: b.toml: there is no file train.safetensors\n"
    assert calls == [*"abc", *"abc"], "checked before the first is trained"


def test_with_strict_a_failure_is_raised(monkeypatch):
    monkeypatch.setenv("CCL_STRICT", "1")
    with pytest.raises(RuntimeError, match="a bug"):
        train(failing("a", "bug"), write("b"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([('"infonce"', '"infomce"')], "no objective 'infomce'"),
        (
            [('"infonce"', '"cl_infonce"\ncondition = {use = "column", name = "kind"}')],
            "has missing (-1) values in 1 of 32 rows (3)",
        ),
        ([("train.safetensors", "gone.safetensors")], "gone.safetensors"),
        ([("train.safetensors", "damaged.safetensors")], "damaged.safetensors is damaged"),
        ([("batch_size = 16", "batch_size = 99")], "batch_size must be 1 to 32"),
        ([('use = "simclr"', 'use = "moco_v2", queue_size = 8')], "batch of 16 does not fit into"),
        ([("in_features = 4", "in_features = 5")], "give it in_features=4"),
        ([("workers = 0", 'workers = 0, compile = "eagre"')], "no backend 'eagre'"),
        ([("workers = 0", "workers = 0, optimizer = {layer_decay = 0.5}")], "layer_numbers"),
    ],
)
def test_what_can_be_checked_is_checked_for_all_files_before_the_first_trains(
    changes, message, capsys
):
    kind = torch.arange(32) % 3
    kind[3] = -1
    columns = {"label": torch.arange(32) % 2, "kind": kind}
    save_file({"features": torch.randn(32, 4), **columns}, "train.safetensors")
    columns = {name: column[:8] for name, column in columns.items()}
    save_file({"features": torch.randn(8, 4), **columns}, "test.safetensors")
    Path("damaged.safetensors").write_text("no tensors")
    assert train(write("a"), write("b", *changes), write("c")) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("ccl: b.toml: ")
    assert message in line
    assert not Path("runs").exists()


def test_every_file_with_a_mistake_is_named_before_the_first_trains(capsys):
    wrong = [write(name, ('"infonce"', '"infomce"')) for name in ("b", "d")]
    assert train(write("a"), *wrong) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["b.toml", "d.toml"]


def test_a_folder_that_cannot_hold_a_run_is_known_before_the_first_trains(capsys):
    assert train(write("b")) == 0
    capsys.readouterr()
    assert train(write("a"), write("b")) == 2
    assert "runs/b already holds a run" in capsys.readouterr().err
    assert not Path("runs/a").exists()
    Path("file").touch()
    assert train(write("a"), "--out", "file/deep") == 2
    assert "file is a file; a run needs a folder" in capsys.readouterr().err


class Stop(Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 1:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_all_files_and_still_shows_the_table(capsys, monkeypatch):
    calls = []

    call = type(ccl._registry()).call

    def answer(self, hook, **given):
        if hook == "ccl_callbacks":
            calls.append(hook)  # the first three are those of the checks before training
            return [("ccl-plugins", [Stop()])] if len(calls) == 5 else []
        return call(self, hook, **given)

    monkeypatch.setattr(type(ccl._registry()), "call", answer)
    files = [write(name) for name in ("a", "b", "c")]
    assert train(*files) == 130
    said = capsys.readouterr()
    found = {row["RUN"]: row for row in rows(said.out)}
    assert found["runs/a"]["AFTER"]
    assert found["runs/b"]["STATE"] == "step 1 of 2"
    assert found["runs/b"]["BEFORE"]
    assert not found["runs/b"]["AFTER"]
    assert found["runs/c"]["STATE"] == "not begun"
    assert "stopped at step 1 of 2; runs/b can be resumed" in said.err
    assert main(["evaluate", "runs/b", "runs/a"]) == 0
    states = {row["RUN"]: row["STATE"] for row in rows(capsys.readouterr().out)}
    assert states == {"runs/a": "", "runs/b": "step 1 of 2"}


def test_runs_of_one_name_in_different_folders_are_two_rows(capsys):
    file = write("x")
    assert train(file, "--out", "one", "--epochs", "2") == 0
    assert train(file, "--out", "two") == 0
    capsys.readouterr()
    assert main(["evaluate", "one/x", "two/x", "./one/x/", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["run"], row["n"], row["runs"]) for row in found] == [
        ("one/x", 1, ["one/x"]),
        ("two/x", 1, ["two/x"]),
    ]
    for row in found:
        run = ccl.load(row["run"])
        assert (row["before"], row["after"]) == (run.before["knn/top1"], run.metrics["knn/top1"])
        assert row["before_deviation"] is row["after_deviation"] is None


def test_a_damaged_run_among_several_is_one_failure(capsys):
    assert train(*(write(name) for name in ("a", "b", "c"))) == 0
    Path("runs/b/weights.pt").write_text("no weights")
    shutil.rmtree("runs/b/checkpoints")
    shutil.rmtree("runs/c/checkpoints")
    Path("runs/c/weights.pt").unlink()
    capsys.readouterr()
    assert main(["evaluate", "runs/a", "runs/b", "runs/c", "runs/d"]) == 1
    said = capsys.readouterr()
    states = {row["RUN"]: row["STATE"] for row in rows(said.out)}
    assert states["runs/a"] == ""
    assert "runs/b/weights.pt is damaged" in states["runs/b"]
    assert "holds no weights: training stopped before its first checkpoint" in states["runs/c"]
    assert "holds no run" in states["runs/d"]
    assert len(said.err.splitlines()) == 3

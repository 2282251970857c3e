"""Several files and runs on one command line: one failure is one failure, and the table comes."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.resuming import StopAfter
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments import train as launch
from ccl_plugins.experiments.results import spread
from ccl_plugins.objectives import InfoNCE

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
    """The rows of a printed table, as their cells by heading, without the notes below it."""
    head, *lines = text.partition("\n\n")[0].splitlines()
    names = list(re.finditer(r"\S+", head))
    ends = [name.start() for name in names[1:]] + [None]
    return [
        {name[0]: line[name.start() : end].strip() for name, end in zip(names, ends, strict=True)}
        for line in lines
    ]


UNDEFINED = ('["knn"]', '["knn", {use = "regression", column = "age"}]')
"""An evaluator that is left out, with a warning, where the age is constant."""

LEFT_OUT = (
    "the evaluator regression(column='age', reg=None, eight_bit=None) is left out: column 'age' has"
)


@pytest.fixture
def _constant_age(in_a_folder_with_data):
    columns = {"label": torch.arange(8) % 2, "age": torch.ones(8)}
    save_file({"features": torch.randn(8, 4), **columns}, "test.safetensors")


@pytest.mark.usefixtures("printed_warnings", "_constant_age")
def test_a_warning_is_printed_once_for_each_file_and_counted_for_several_runs(capsys):
    files = [write(name, UNDEFINED) for name in ("a", "b")]
    assert train(*files) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(LEFT_OUT)[0] for line in said] == [
        "ccl: warning: a.toml: ",
        "ccl: warning: b.toml: ",
    ]
    assert main(["evaluate", "runs/a", "runs/b"]) == 0
    first, others = capsys.readouterr().err.splitlines()
    assert first.startswith(f"ccl: warning: runs/a: {LEFT_OUT}")
    assert others.startswith(f"ccl: warning: 1 more run: {LEFT_OUT}")
    assert train("a.toml", "--seeds", "0,1", "--out", "seeds") == 0
    (only,) = capsys.readouterr().err.splitlines()
    assert only.startswith(f"ccl: warning: {LEFT_OUT}")


@pytest.mark.usefixtures("printed_warnings", "_constant_age")
def test_python_prints_a_warning_of_a_run_once(capsys):
    run = ccl.Pipeline.from_toml(write("a", UNDEFINED)).fit(out="run", progress=False)
    run.evaluate()
    run.evaluate()
    run.measure({"use": "regression", "column": "age"})
    (only,) = capsys.readouterr().err.splitlines()
    assert only.startswith(f"ccl: warning: {LEFT_OUT}")


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
        ("exit", "failed: objective local/fails ends the program (SystemExit: a plug-in"),
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

    def vanishing(checked, *given):
        calls.append(checked.folder.path.name)
        if calls == [*"abcab"]:
            raise FileNotFoundError("there is no file train.safetensors")
        return prepare(checked, *given)

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
            "has missing (-1) values in 1 of 32 rows (3; from 0)",
        ),
        ([("train.safetensors", "gone.safetensors")], "gone.safetensors"),
        ([("train.safetensors", "damaged.safetensors")], "damaged.safetensors is damaged"),
        ([('use = "simclr"', 'use = "moco_v2", queue_size = 8')], "batch of 16 does not fit into"),
        ([("workers = 0", 'workers = 0, compile = "eagre"')], "no backend 'eagre'"),
        ([("workers = 0", "workers = 0, layer_decay = 0.5")], "layer_numbers"),
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


def test_ctrl_c_stops_all_files_and_still_shows_the_table(capsys, monkeypatch):
    calls = []

    call = type(ccl._registry()).call

    def answer(self, hook, **given):
        if hook == "ccl_callbacks":
            calls.append(hook)  # the first three are those of the checks before training
            return [("ccl-plugins", [StopAfter(1)])] if len(calls) == 5 else []
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
    assert "ccl: runs/c holds no weights" in said.err  # and not "runs/c: runs/c holds"


def test_files_of_one_name_in_different_folders_get_folders_of_their_own(capsys):
    files = [write(name) for name in ("x", "a/x", "b/x", "y")]
    assert train(*files, "--epochs", "1") == 0
    here = Path.cwd().name
    assert {path.name for path in Path("runs").iterdir()} == {f"{here}-x", "a-x", "b-x", "y"}
    capsys.readouterr()
    assert train("a/x.toml", "./a/x.toml", "--overwrite") == 2
    assert capsys.readouterr().err == "ccl: a/x.toml is given twice\n"


def test_seeds_are_one_row_with_mean_and_deviation(capsys):
    files = [write("x"), write("y", ("hidden = [8]", "hidden = [6]"))]
    assert train(*files, "--seeds", "0,1,5") == 0
    printed = rows(capsys.readouterr().out)
    assert [(row["RUN"], row["N"]) for row in printed] == [
        ("runs/x-seed-*", "3"),
        ("runs/y-seed-*", "3"),
    ]
    runs = [ccl.load(f"runs/x-seed-{seed}") for seed in (0, 1, 5)]
    assert [run.pipeline.settings.seed for run in runs] == [0, 1, 5]
    assert main(["evaluate", *(str(run.path) for run in runs), "runs/y-seed-1", "--json"]) == 0
    three, one = json.loads(capsys.readouterr().out)
    for time, found in (
        ("before", [run.before["knn/top1"] for run in runs]),
        ("after", [ccl.load(run.path).metrics["knn/top1"] for run in runs]),
    ):
        assert three[time] == pytest.approx(statistics.fmean(found))
        assert three[f"{time}_deviation"] == pytest.approx(statistics.stdev(found))
        assert printed[0][time.upper()] == spread(three[time], three[f"{time}_deviation"])
    assert (three["n"], three["run"]) == (3, "runs/x-seed-*")
    assert (one["n"], one["run"], one["after_deviation"]) == (1, "runs/y-seed-1", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seeds 0,1 --seed 3", "--seed is one seed and --seeds are several"),
        ("--seeds 0,1 --set fit.seed=3", "--set fit.seed and the option for seed"),
        ("--epochs 2 --set fit.epochs=3", "--set fit.epochs and the option for epochs"),
        (
            "--set objectiv.temperature=1",
            "x.toml: unknown key 'objectiv'. Did you mean 'objective'?",
        ),
        ("--set objective.temperatur=1", "Did you mean 'temperature'?"),
        (
            "--set hidden=[4]",
            "unknown key 'hidden'. Did you mean backbone.hidden or method.hidden?",
        ),
        ("--set epochs=3", "unknown key 'epochs'. Did you mean fit.epochs?"),
        ("--set fit.epoch=3", "unknown key 'epoch'. Did you mean 'epochs'?"),
        ("--set fit.epochs.more=3", "fit.epochs is 1, which has no 'more'"),
        ("--set evaluate.1.k=3", "there is no evaluate.1; there are evaluate.0"),
        ("--set fit.epochs=1=2", "'fit.epochs=1=2': "),
        ("--set fit.epochs", "'fit.epochs': there is no '='"),
        ("--set =3", "'=3': "),
        ("--set fit.epochs=many", "epochs must be a whole number"),
    ],
)
def test_a_wrong_value_on_the_command_line_is_one_line_that_names_what_is_near(words, said, capsys):
    assert train(write("x"), *words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not Path("runs").exists()


@pytest.mark.parametrize("seeds", ["0,0", "-1", "a", ""])
def test_seeds_are_different_whole_numbers(seeds, capsys):
    with pytest.raises(SystemExit):
        train(write("x"), f"--seeds={seeds}")
    said = capsys.readouterr().err
    assert (
        f"argument --seeds: must be different whole numbers of 0 or more, such as 0,1,2, not {seeds!r}"
        in (" ".join(said.split()))
    )
    assert "_seeds" not in said


def test_values_of_the_command_line_are_in_the_record(capsys):
    values = (
        "objective.temperature=0.3",
        "objective.temperature=0.4",
        "backbone.hidden=[6, 6]",
        "evaluate.0.k=5",
        "sampler=uniform",
        "fit.optimizer.lr=1e-2",
        'fit.schedule={use = "constant"}',
    )
    assert train(write("x"), *(word for value in values for word in ("--set", value))) == 0
    record = json.loads(Path("runs/x/pipeline.json").read_text())
    assert record["objective"]["temperature"] == 0.4
    assert record["backbone"]["hidden"] == [6, 6]
    assert record["evaluate"][0]["k"] == 5
    assert record["fit"]["optimizer"]["lr"] == 0.01
    assert record["fit"]["schedule"]["use"] == "schedule:ccl-plugins/constant"
    assert Path("x.toml").read_text() == TOML


def test_a_run_without_a_checkpoint_is_replaced_without_overwrite(capsys):
    """It was killed before its first checkpoint: there is a record, and there are events."""
    file = write("x", ("workers = 0", "workers = 0, seed = 3"))
    assert train(file) == 0
    shutil.rmtree("runs/x/checkpoints")
    Path("runs/x/weights.pt").unlink()
    Path("runs/x/notes.txt").write_text("mine")
    old = {*Path("runs/x").glob("events*")}
    write("x")
    assert train(file) == 0
    assert old
    assert not old & {*Path("runs/x").glob("events*")}
    assert Path("runs/x/notes.txt").read_text() == "mine"
    assert ccl.load("runs/x").pipeline.settings.seed == 0
    capsys.readouterr()
    assert train(file) == 2
    assert "runs/x already holds a run" in capsys.readouterr().err

"""Numbers go to every logger that is named, a resumed run continues them, and none ends the training."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.loggers import Logger
from support.vector_pipeline import ROWS
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ccl_plugins as ccl
from ccl_plugins.experiments.curves import curves
from ccl_plugins.files.events import event_files, replacing_events
from ccl_plugins.files.fingerprints import of_tensors
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.loggers import services
from ccl_plugins.loggers.history import rows_until


def compose(*loggers: Any, **settings: Any) -> ccl.Pipeline:
    return ccl.Pipeline(
        dataset=ccl.create("dataset", "features", train=ROWS, test=ROWS),
        backbone=ccl.backbone("mlp", in_features=4, hidden=[8]),
        method=ccl.method("simclr", hidden=8, dim=4),
        transform="noise",
        objective="supcon",
        condition="label",
        evaluate=["knn"],
        loggers=loggers or ("tensorboard",),
        fit={"epochs": 2, "batch_size": 16, "workers": 0, "checkpoint_every": 1, "log_every": 1}
        | {"schedule": {"use": "constant"}, **settings},
    )


def history(run: ccl.Run) -> list[tuple[int, str, float]]:
    with run.folder.history.open() as lines:
        return [(int(r["step"]), r["name"], float(r["value"])) for r in csv.DictReader(lines)]


def test_tensorboard_is_the_default():
    pipeline = ccl.Pipeline(dataset="color_digits", backbone="lenet5", objective="infonce")
    assert pipeline.to_dict()["loggers"] == [
        {"use": "logger:ccl-plugins/tensorboard", "flush_secs": 120, "max_queue": 10}
    ]


def test_loggers_are_part_of_the_record_and_of_a_file(tmp_path):
    pipeline = compose("csv", {"use": "wandb", "project": "x", "mode": "offline"})
    assert pipeline.to_dict()["loggers"] == [
        {"use": "logger:ccl-plugins/csv"},
        {
            "use": "logger:ccl-plugins/wandb",
            "project": "x",
            "mode": "offline",
            "options": None,
        },
    ]
    (tmp_path / "a.toml").write_text(
        'dataset = "color_digits"\nbackbone = "lenet5"\nobjective = "infonce"\n'
        'loggers = ["tensorboard", {use = "mlflow", experiment_name = "x"}]\n'
    )
    pipeline = ccl.Pipeline.from_toml(tmp_path / "a.toml")
    assert [*pipeline.loggers] == ["tensorboard", "mlflow"]
    assert ccl.Pipeline.from_dict(pipeline.to_dict()) == pipeline


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("csv", r'loggers must be a list, such as \["tensorboard", "csv"\], not \'csv\''),
        (["wandbb"], r"loggers\[0\]: no logger 'wandbb'. Did you mean 'wandb'\?"),
        (["csv", "csv"], r"loggers\[1\]: csv is given twice"),
        (["csv", 3], r"loggers\[1\]: must be the name of a logger or a table, not 3"),
        ([{"project": "x"}], r'loggers\[0\]: a logger needs use = "its name"; it has project'),
        ([{"use": "csv", "file": "x"}], r"loggers\[0\]: .*csv has no parameter 'file'"),
        ([{"use": "tensorboard", "flush_sec": 1}], "Did you mean 'flush_secs'"),
        ([{"use": "wandb", "projct": "x"}], "has no parameter 'projct'. Did you mean 'project'"),
        ([object()], "has no open, which ccl_plugins.protocols.logger.Logger asks for"),
    ],
)
def test_what_is_no_logger_is_refused_when_a_pipeline_is_composed(given, message):
    with pytest.raises(ccl.RegistryError, match=message):
        ccl.Pipeline(dataset="color_digits", backbone="lenet5", objective="infonce", loggers=given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"use": "wandb", "options": {"grup": "x"}},
            r"loggers\[0\]: wandb has no option 'grup'. Did you mean 'group'",
        ),
        ({"use": "mlflow", "options": {"runname": "x"}}, "Did you mean 'run_name'"),
    ],
)
def test_an_unknown_option_is_refused_before_anything_is_written(given, message, tmp_path):
    pytest.importorskip(given["use"])
    with pytest.raises(ValueError, match=message):
        compose(given).fit(out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_extra_says_what_to_install(name, tmp_path, monkeypatch):
    monkeypatch.setattr(services, "find_spec", lambda package: None)
    with pytest.raises(ValueError, match=rf'pip install "ccl-plugins\[{name}\]"'):
        compose(name).fit(out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    assert compose("csv").fit(out=tmp_path / "run", progress=False)


def test_the_csv_file_has_what_tensorboard_has(tmp_path):
    run = compose("tensorboard", "csv").fit(out=tmp_path / "run", progress=False)
    run.evaluate()
    events, table = EventAccumulator(str(run.path)).Reload(), curves(run)
    names = events.Tags()["scalars"]
    board = {name: [(e.step, e.value) for e in events.Scalars(name)] for name in names}
    assert board.keys() == table.keys() >= {"loss", "lr", "evaluation/knn/top1"}
    for name, points in board.items():
        torch.testing.assert_close(points, table[name], rtol=1e-6, atol=0)
    assert [step for step, _ in table["evaluation/knn/top1"]] == [0, 4]


def test_measuring_again_adds_no_row_no_file_and_no_thread(tmp_path):
    run = compose("tensorboard", "csv").fit(out=tmp_path / "run", progress=False)
    run.evaluate()
    before = len(list(run.path.iterdir())), threading.active_count(), history(run)
    for _ in range(2):
        run.evaluate()
    assert (len(list(run.path.iterdir())), threading.active_count(), history(run)) == before
    again = compose("tensorboard", "csv").fit(out=run.path, progress=False, resume=True)
    again.evaluate()
    places = [(step, name) for step, name, _ in history(run)]
    assert len(places) == len({*places})


def test_rows_after_the_step_of_a_resume_are_cut(tmp_path):
    """A run is killed after step 3, and its last checkpoint is of step 2."""
    whole = compose("csv").fit(out=tmp_path / "whole", progress=False)
    run = compose("csv", epochs=1).fit(out=tmp_path / "run", progress=False)
    RunFolder(run.path).unseal(["history.csv"])  # as while it trains
    with run.folder.history.open("a") as out:
        out.write("3,loss,99.0\n3,lr,0.003\n3,images_per_sec")
    run = compose("csv").fit(out=tmp_path / "run", resume=True, progress=False)

    def losses(run: ccl.Run) -> list[tuple[int, float]]:
        return [(step, value) for step, name, value in history(run) if name == "loss"]

    assert losses(run) == losses(whole)
    assert [step for step, _ in losses(run)] == [1, 2, 3, 4]


def test_a_row_that_was_not_finished_is_no_row(tmp_path):
    file = tmp_path / "history.csv"
    file.write_text("step,name,value\n1,loss,2.5\n2,loss,nan\n2,lr,0.0")
    assert rows_until(file, 2) == [(1, "loss", "2.5"), (2, "loss", "nan"), (2, "lr", "0.0")]
    file.write_text("step,name,value\n1,loss,2.5\n2,loss,-\n2,lr")
    assert rows_until(file, 2) == [(1, "loss", "2.5")]
    assert rows_until(tmp_path / "none.csv", 2) == []


class Recorder(Logger):
    """Keeps what it gets."""

    name = version = "recorder"

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.fails = fails
        self.values: list[tuple[int, str]] = []
        self.given: dict[str, Any] = {}

    def log_metrics(self, metrics, step=None):
        if self.fails == "metrics" and step:
            raise OSError(28, "No space left on device")
        self.values += [(step, name) for name in metrics]

    def log_hyperparams(self, params):
        if self.fails == "hyperparameters":
            raise ConnectionError("the service is away")
        self.given = params

    def save(self):
        if self.fails == "save":
            raise OSError(28, "No space left on device")


def test_the_record_the_code_and_the_tables_go_to_every_logger(tmp_path):
    recorder = Recorder()
    run = compose().fit(out=tmp_path / "run", logger=recorder, progress=False)
    assert recorder.given["pipeline"] == run.record
    assert recorder.given["code"]["ccl-plugins"] == ccl.__version__
    assert recorder.given["tables"] == {"condition": of_tensors({"values": ROWS["label"]})}
    assert {(0, "evaluation/knn/top1"), (4, "loss")} <= {*recorder.values}
    run = compose("csv").fit(out=tmp_path / "csv", progress=False)
    written = json.loads((run.path / "hyperparameters.json").read_text())
    assert written["tables"] == recorder.given["tables"]


@pytest.mark.parametrize("fails", ["metrics", "hyperparameters", "save"])
def test_a_logger_that_fails_does_not_end_the_training(fails, tmp_path):
    failing, sound = Recorder(fails), Recorder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = compose().fit(out=tmp_path / "run", logger=[failing, sound], progress=False)
    said = [str(w.message) for w in caught if "Recorder" in str(w.message)]
    assert len(said) == 1
    assert said[0].startswith("the logger Recorder failed, and logs no more; training goes on (")
    assert "\n" not in said[0]
    assert run.folder.weights.exists()
    assert (4, "loss") in sound.values


def test_a_full_disk_ends_the_csv_file_and_not_the_training(tmp_path, monkeypatch):
    original = Path.open

    def full(self, mode="r", *args, **kwargs):
        if self.name == "history.csv" and mode == "a":
            raise OSError(28, "No space left on device")
        return original(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.warns(UserWarning, match=r"the logger csv failed.*No space left on device"):
        run = compose("csv").fit(out=tmp_path / "run", progress=False)
    assert run.folder.weights.exists()


@pytest.fixture
def full_for_events(monkeypatch):
    """A disk on which TensorBoard's thread can write so many records."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    original, left = RecordWriter.write, [0]

    def full(self, data):
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        return original(self, data)

    monkeypatch.setattr(RecordWriter, "write", full)
    return left


@pytest.mark.parametrize("fits", [2, 5, 8])
def test_a_full_disk_ends_the_events_and_not_the_training(fits, tmp_path, full_for_events, capfd):
    full_for_events[0] = fits
    with pytest.warns(UserWarning, match=r"the logger tensorboard .*No space left on device"):
        run = compose("tensorboard").fit(out=tmp_path / "run", progress=False)
    assert run.folder.weights.exists()
    assert "Traceback" not in capfd.readouterr().err


def test_a_full_disk_leaves_the_events_that_would_be_replaced(tmp_path, full_for_events, capfd):
    full_for_events[0] = 100
    for values in ((1.0,), (2.0, 3.0)):
        expected = pytest.raises(OSError, match="No space") if len(values) > 1 else nullcontext()
        with expected, replacing_events(tmp_path, ".evaluation-4") as writer:
            for number, value in enumerate(values):
                writer.add_scalar(f"value{number}", value, 4)
        full_for_events[0] = 2  # the first record, which is no value, and one value
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["scalars"] == ["value0"]
    assert events.Scalars("value0")[0].value == 1
    assert event_files(tmp_path) == [each.name for each in tmp_path.glob("events.*")]
    assert len([*tmp_path.iterdir()]) == 3  # with the list of what was written, and its checksums
    assert "Traceback" not in capfd.readouterr().err


def test_events_of_one_second_are_read_in_the_order_in_which_they_were_written(tmp_path):
    steps = list(range(20))  # TensorBoard numbers its files, from "9" to "10" too
    for step in steps:
        with replacing_events(tmp_path, f".evaluation-{step}") as writer:
            writer.add_scalar("value", step, step)
    read = EventAccumulator(str(tmp_path)).Reload().Scalars("value")
    assert [event.step for event in read] == steps


def test_loggers_may_change_when_a_run_is_resumed(tmp_path):
    compose("csv", epochs=1).fit(out=tmp_path / "run", progress=False)
    run = compose().fit(out=tmp_path / "run", resume=True, progress=False)
    events = EventAccumulator(str(run.path)).Reload()
    assert [event.step for event in events.Scalars("loss")] == [3, 4]


def test_the_hyperparameters_of_a_run_are_those_with_which_it_began(tmp_path):
    run = compose("csv", epochs=1).fit(out=tmp_path / "run", progress=False)
    before = (run.path / "hyperparameters.json").read_bytes()
    for epochs in (1, 2):
        compose("csv").fit(out=run.path, resume=True, epochs=epochs, progress=False)
        assert (run.path / "hyperparameters.json").read_bytes() == before


def test_a_run_without_loggers_keeps_its_curves(tmp_path):
    run = compose().fit(out=tmp_path / "run", logger=False, progress=False)
    assert [step for step, _ in curves(run)["loss"]] == [1, 2, 3, 4]
    assert not event_files(run.path)


def test_curves_that_are_gone_are_told_when_a_run_goes_on(tmp_path):
    run = compose(epochs=1).fit(out=tmp_path / "run", progress=False)
    run.folder.history.unlink()
    with pytest.warns(UserWarning, match=r"history\.csv is missing: .* begin after step 2"):
        compose().fit(out=run.path, resume=True, progress=False)


def test_loggers_change_no_weight(tmp_path):
    found = [
        compose(*chosen).fit(out=tmp_path / str(i), progress=False).folder.weights
        for i, chosen in enumerate([("csv", "tensorboard"), ()])
    ]
    one, other = (torch.load(file, weights_only=True)["method"] for file in found)
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_run_that_is_overwritten_leaves_nothing_of_its_loggers(tmp_path):
    """Whatever a logger left is listed in the folder, so that its plug-in need not be there."""

    class Diary:
        files = ("diary", "*.note", "..", "a/b", "*")

        def open(self, folder, done):
            (folder / "diary").mkdir(exist_ok=True)
            for name in ("diary/page", "a.note", "b.note"):
                (folder / name).write_text("x")
            return Recorder()

    (tmp_path / "run" / "diary").mkdir(parents=True)
    mine = [
        tmp_path / "run" / name for name in ("diary/mine", "mine.note", "mine.txt", "late.note")
    ]
    for file in mine[:-1]:
        file.write_text("x")
    run = compose("csv", Diary()).fit(out=tmp_path / "run", progress=False)
    mine[-1].write_text("x")
    logged = {"history.csv", "hyperparameters.json", "diary/page", "a.note", "b.note"}
    assert {*RunFolder(run.path).own_names()} >= logged
    assert not {*RunFolder(run.path).own_names()} & {
        str(file.relative_to(run.path)) for file in mine
    }
    run = compose().fit(out=tmp_path / "run", overwrite=True, progress=False)
    assert not [name for name in logged - {"history.csv"} if (run.path / name).exists()]
    assert all(file.exists() for file in mine)


@pytest.fixture
def offline(monkeypatch):
    """No service is reached, and none is told of these tests."""
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for name in ("WANDB_PROJECT", "WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


LOGGERS = (["csv"], ["tensorboard"], [{"use": "wandb", "mode": "offline"}], ["mlflow"], False)


@pytest.mark.parametrize("place", range(len(LOGGERS)))
def test_a_run_that_is_resumed_with_other_loggers_has_whole_curves(place, tmp_path, offline):
    for epochs, chosen in ((1, LOGGERS[place - 1]), (2, LOGGERS[place])):
        for name in {"wandb", "mlflow"} & {*re.findall("[a-z]+", str(chosen))}:
            pytest.importorskip(name)
        run = compose(*(chosen or [])).fit(
            out=tmp_path / "run", resume=True, epochs=epochs, progress=False, logger=bool(chosen)
        )
    found = curves(run)
    assert [step for step, _ in found["loss"]] == [1, 2, 3, 4]
    assert found["evaluation/knn/top1"][0][0] == 0


def test_mlflow_continues_its_run_in_a_file_store(tmp_path, offline):
    mlflow = pytest.importorskip("mlflow")
    store = (tmp_path / "store").as_uri()
    chosen = {"use": "mlflow", "experiment_name": "digits", "tracking_uri": store}
    compose(chosen, epochs=1).fit(out=tmp_path / "run", progress=False)
    run = compose(chosen).fit(out=tmp_path / "run", resume=True, progress=False)
    client = mlflow.MlflowClient(store)
    experiment = client.get_experiment_by_name("digits")
    (found,) = client.search_runs([experiment.experiment_id])
    assert (run.path / "mlflow.id").read_text().strip() == found.info.run_id
    logged = client.get_metric_history(found.info.run_id, "loss")
    assert [each.step for each in logged] == [1, 2, 3, 4]
    assert found.data.params["pipeline/objective/use"] == "objective:ccl-plugins/supcon"
    assert found.data.params["tables/condition"] == of_tensors({"values": ROWS["label"]})
    metrics = run.evaluate()
    found = client.get_run(found.info.run_id)
    torch.testing.assert_close(
        found.data.metrics["evaluation/knn/top1"], float(metrics["knn/top1"])
    )


def test_mlflow_keeps_its_store_in_the_run_unless_told_otherwise(tmp_path, offline):
    pytest.importorskip("mlflow")
    run = compose("mlflow", epochs=1).fit(out=tmp_path / "run", progress=False)
    assert (run.path / "mlflow").is_dir()


def test_wandb_continues_its_run_offline(tmp_path, offline):
    wandb = pytest.importorskip("wandb")
    chosen = {"use": "wandb", "project": "digits", "mode": "offline"}
    compose(chosen, epochs=1).fit(out=tmp_path / "run", progress=False)
    run = compose(chosen).fit(out=tmp_path / "run", resume=True, progress=False)
    assert wandb.run is None
    number = (run.path / "wandb.id").read_text().strip()
    files = [*run.path.glob("wandb/offline-run-*/run-*.wandb")]
    assert {file.name for file in files} == {f"run-{number}.wandb"}
    text = b"".join(file.read_bytes() for file in files)
    for word in (b"images_per_second", b"ccl-plugins/supcon", b"digits"):
        assert word in text
    assert of_tensors({"values": ROWS["label"]}).encode() in text


def test_a_plug_in_logs_too(installed_plugins, tmp_path):
    code = """
from support.vector_pipeline import make_pipeline
run = make_pipeline(epochs=1).fit(out=r"{out}", progress=False)
print(run.record["callbacks"])
make_pipeline(epochs=1).fit(out=r"{out}", overwrite=True, progress=False, logger=False)
import ccl_plugins as ccl
pipeline = make_pipeline(epochs=1, plugins={"ccl-logs": {"mark": "> "}})
assert pipeline.to_dict()["plugins"] == {"ccl-logs": {"mark": "> "}}
pipeline.fit(out=r"{out}", overwrite=True, progress=False)
print(run.record["callbacks"])
try:
    ccl.Pipeline(dataset="color_digits", backbone="lenet5", objective="infonce",
                 plugins={"ccl-log": {}})
except ccl.InvalidConfig as error:
    assert str(error) == "plugins: no plugin 'ccl-log'. Did you mean 'ccl-logs'?", error
else:
    raise AssertionError
""".replace("{out}", str(tmp_path / "run"))
    given = {"PYTHONPATH": os.pathsep.join(sys.path), "LINES": str(tmp_path / "lines")}
    said = installed_plugins.python(code, plugins="own_logger", **given)
    assert said.splitlines()[-1] == "{'ccl-logs': '1.2.0'}"
    lines = (tmp_path / "lines").read_text().splitlines()
    assert "pipeline code tables infonce" in lines
    assert "0 evaluation/knn/top1" in lines
    assert lines.count("2 loss") == lines.count("> 2 loss") == 1, "with the options of the table"


def test_loggers_of_a_plug_in_that_are_no_list_are_named(tmp_path, monkeypatch):
    answers = {"ccl_loggers": [("ccl-other", 3)]}
    monkeypatch.setattr(
        type(ccl._registry()), "call", lambda self, hook, **_: answers.get(hook, [])
    )
    with pytest.raises(TypeError, match="plugin ccl-other: loggers must be a list of Lightning"):
        compose().fit(out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()

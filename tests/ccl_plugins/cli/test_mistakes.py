"""Mistakes at the command line and in Python: one error each, which says what would be right."""

from __future__ import annotations

import shutil

import pytest
import torch
from support.resuming import StopAfter
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments import train as launch

pytestmark = pytest.mark.usefixtures("in_a_folder_with_data")


def train(text=TOML, *more):
    with open("x.toml", "w") as file:
        file.write(text)
    return main(["train", "x.toml", "--quiet", *more])


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("fit =", 'conditions = "label"\nfit =', "conditions must be a table, such as {color ="),
        ("fit = {", "fit = 3 # {", "fit must be a table, such as {epochs = 100}, not 3"),
        ('["knn"]', '"knn"', "evaluate must be a list of evaluators"),
        ('["knn"]', '{use = "knn"}', "evaluate must be a list of evaluators"),
        ("workers = 0", "workrs = 0", "fit: unknown key 'workrs'. Did you mean 'workers'?"),
        (
            "workers = 0",
            "optimizer = [1]",
            "fit.optimizer: must be the name of an optimizer or a table",
        ),
        ('"infonce"', "{temperature = 1}", 'objective: an objective needs use = "its name"'),
        ('"infonce"', '{use = "infonce", temperature = -1}', "(while building infonce("),
        ('["knn"]', '[{use = "knn", k = 0}]', "k must be 1 or more, not 0 (while"),
        ('["knn"]', '[{use = "regression", column = "aeg"}]', "the column 'aeg', and the data set"),
        ('["knn"]', '[{use = "regression", column = "label"}]', "needs a continuous column"),
        ('"knn"', '{use = "knn", column = "age"}', "KNN needs a categorical column, and 'age' is"),
        ("in_features = 4", "in_features = 5", "give it in_features=4"),
        ('"noise"', '"simclr"', "an image must be a PIL image or a uint8 tensor"),
        ("batch_size = 16", "batch_size = 99", "batch_size must be 1 to 32"),
    ],
)
def test_a_wrong_file_is_named_in_one_line_before_training(right, wrong, message, capsys, tmp_path):
    assert TOML.count(right) == 1
    assert train(TOML.replace(right, wrong)) == 2
    said = capsys.readouterr().err
    assert said.startswith("ccl: x.toml: ")
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_mistake_that_a_worker_finds_is_one_line_too(capsys):
    text = TOML.replace("workers = 0", "workers = 1").replace('"noise"', '"simclr"')
    assert train(text) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ccl: x.toml: an image must be a PIL image or a uint8 tensor, not ")


def test_strict_shows_where_a_mistake_was_found(monkeypatch):
    monkeypatch.setenv("CCL_STRICT", "1")
    with pytest.raises(ValueError, match="give it in_features=4"):
        train(TOML.replace("in_features = 4", "in_features = 5"))


def test_ctrl_c_between_two_steps_is_no_crash(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "train", interrupted)
    assert train() == 130
    assert capsys.readouterr().err == "ccl: interrupted\n"


def test_damaged_files_of_a_run_are_named(tmp_path, capsys):
    assert train() == 0
    run = tmp_path / "runs" / "x"
    capsys.readouterr()
    record = (run / "pipeline.json").read_text()
    weights = (run / "weights.pt").read_bytes()
    (run / "weights.pt").write_bytes(weights[:-1] + b"?")
    with pytest.warns(
        UserWarning, match=r"weights\.pt is damaged .*; the newest checkpoint is read"
    ):
        assert main(["evaluate", str(run)]) == 0
    shutil.rmtree(run / "checkpoints")
    for name, text, said in (
        (
            "weights.pt",
            "no weights",
            "weights.pt is damaged (10 bytes): its content does not have its",
        ),
        ("pipeline.json", record[:30], "pipeline.json: "),
        ("pipeline.json", "[1]", "pipeline.json: must hold a JSON object, not '[1]'"),
    ):
        (run / name).write_text(text)
        assert main(["evaluate", str(run)]) == 2
        told = capsys.readouterr().err
        assert said in told
        assert "weights_only" not in told
    assert train(TOML, "--resume") == 2
    assert "pipeline.json: must hold" in capsys.readouterr().err


def test_a_step_to_infinity_is_a_failure_that_says_so(capsys):
    """The loss of the only step is finite."""
    text = TOML.replace(
        "batch_size = 16",
        'batch_size = 32, optimizer = {use = "sgd", lr = 1e38, weight_decay = 1e3}',
    )
    assert train(text) == 1
    said = capsys.readouterr().err
    assert "the weights are not finite after step 1, with a finite loss" in said
    assert said.rstrip().endswith("No checkpoint was written before")


@pytest.mark.slow
def test_a_finished_run_that_goes_on_and_is_stopped_has_its_newest_weights(tmp_path):
    assert train() == 0
    images = torch.randn(3, 4)
    finished = ccl.load("runs/x").encode(images)
    again = {"out": "runs/x", "resume": True, "epochs": 3, "progress": False}
    with pytest.raises(launch.RunInterrupted):
        ccl.Pipeline.from_toml("x.toml").fit(**again, callbacks=[StopAfter()])
    stopped = ccl.load("runs/x").encode(images)
    assert not torch.equal(stopped, finished)
    (tmp_path / "runs/x/weights.pt").unlink()
    torch.testing.assert_close(ccl.load("runs/x").encode(images), stopped)


def test_an_overwritten_run_keeps_no_export(tmp_path):
    assert train() == 0
    (tmp_path / "runs/x/timm").mkdir()
    assert train(TOML, "--overwrite") == 0
    assert not (tmp_path / "runs/x/timm").exists()


def test_a_run_without_weights_says_so(tmp_path):
    assert train() == 0
    run = ccl.load("runs/x")
    (tmp_path / "runs/x").rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="runs/x holds no weights: training stopped"):
        run.encode(torch.randn(3, 4))


def test_encode_says_what_it_cannot(tmp_path):
    assert train() == 0
    run = ccl.load("runs/x")
    with pytest.raises(ValueError, match="there are no images to encode"):
        run.encode(torch.zeros(0, 4))
    with pytest.raises(ValueError, match="batch_size must be 1 or more, not 0"):
        run.encode(torch.zeros(2, 4), batch_size=0)


def test_a_network_runs_where_it_is_told_or_on_an_accelerator(monkeypatch):
    assert train() == 0
    run = ccl.load("runs/x")
    monkeypatch.setattr(
        "ccl_plugins.experiments.pipeline.accelerator", lambda: torch.device("meta")
    )
    assert run.encode(torch.zeros(2, 4), device="cpu").shape == (2, 8)
    assert run.evaluate(device="cpu").keys() == {"knn/top1"}
    with pytest.raises(NotImplementedError, match="meta"):
        run.encode(torch.zeros(2, 4))


def parts(**changed):
    given = {
        "dataset": ccl.dataset("features", train="train.safetensors", test="test.safetensors"),
        "backbone": ccl.backbone("mlp", in_features=4, hidden=[8]),
        "transform": "noise",
        "objective": "infonce",
    }
    return {**given, **changed}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"objective": torch.nn.MSELoss()}, "objective: MSELoss has no conditions, "),
        ({"objective": None}, "objective: must be the name of an objective or a table, not None"),
        ({"dataset": torch.utils.data.TensorDataset(torch.ones(3))}, "TensorDataset has no __call"),
        (
            {"conditions": {"a": torch.nn.Identity()}},
            "condition: Identity has no refresh, value_type",
        ),
        ({"objective": ccl.kernel("rbf")}, "must be an objective, not the kernel rbf"),
    ],
)
def test_an_object_that_cannot_do_the_part_says_what_it_lacks(changed, message):
    with pytest.raises(ccl.RegistryError) as raised:
        ccl.Pipeline(**parts(**changed))
    assert message in str(raised.value)


def test_a_network_without_num_features_is_no_backbone():
    pipeline = ccl.Pipeline(**parts(backbone=torch.nn.Linear(4, 4)))
    with pytest.raises(ccl.InvalidParameter, match="backbone: Linear has no num_features, which"):
        pipeline.build()


def test_a_plug_in_whose_callbacks_are_no_list_is_named(monkeypatch, tmp_path):
    pipeline = ccl.Pipeline(**parts())
    answers = {"ccl_callbacks": [("ccl-other", StopAfter())]}
    monkeypatch.setattr(
        type(ccl._registry()), "call", lambda self, hook, **_: answers.get(hook, [])
    )
    with pytest.raises(TypeError, match="plugin ccl-other: callbacks must be a list of Lightning"):
        pipeline.fit(out=tmp_path / "run", epochs=1, batch_size=16, progress=False)
    assert not (tmp_path / "run").exists()


def test_a_callback_that_is_none_leaves_no_run_behind(tmp_path):
    with pytest.raises(TypeError, match=r"^callbacks must be a list of Lightning"):
        ccl.Pipeline(**parts()).fit(out=tmp_path / "run", batch_size=16, callbacks=[print])
    assert not (tmp_path / "run").exists()


def test_no_run_is_deleted_for_data_that_cannot_be_read(tmp_path, capsys):
    assert train() == 0
    (tmp_path / "train.safetensors").write_text("no tensors")
    assert train(TOML, "--overwrite") == 2
    assert "train.safetensors is damaged" in capsys.readouterr().err
    assert (tmp_path / "runs/x/weights.pt").exists()


def test_a_compiler_that_there_is_not_is_named(capsys):
    assert train(TOML.replace("workers = 0", 'workers = 0, compile = "eagre"')) == 2
    assert "torch.compile has no backend 'eagre'; it has " in capsys.readouterr().err


def test_a_name_is_text():
    with pytest.raises(ccl.UnknownComponent, match="a kernel is found by its name, not by None"):
        ccl.create("kernel", None)


def test_an_array_is_no_word():
    import numpy as np

    with pytest.raises(ccl.InvalidParameter, match="scale must be float"):
        ccl.kernel("rbf", scale=np.ones(2))

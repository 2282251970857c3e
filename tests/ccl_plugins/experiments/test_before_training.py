"""Every run measures its backbone before training, whether that begins with weights or without."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from pytorch_lightning.loggers import CSVLogger
from safetensors.torch import save_file
from support.resuming import StopAfter, assert_equal
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.evaluators import KNN
from ccl_plugins.experiments.measure import freeze, measure
from ccl_plugins.experiments.train import RunInterrupted
from ccl_plugins.numerics.generators import seed_everything


@pytest.fixture
def pipeline(in_a_folder_with_data: None) -> ccl.Pipeline:
    Path("x.toml").write_text(TOML)
    return ccl.Pipeline.from_toml("x.toml", seed=3)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of training samples of each measurement by the evaluator."""
    calls, call = [], KNN.__call__

    def counting(self, train, test):
        calls.append(len(train.features))
        return call(self, train, test)

    monkeypatch.setattr(KNN, "__call__", counting)
    return calls


def events(run: Path) -> list[tuple[int, float]]:
    found = EventAccumulator(str(run)).Reload().Scalars("evaluation/knn/top1")
    return [(event.step, event.value) for event in found]


def test_every_run_measures_its_backbone_before_training(pipeline):
    run = pipeline.fit(out="run", progress=False, epochs=2)
    seed_everything(3)
    untrained = pipeline.build()
    frozen = freeze(untrained.method, pipeline, 0, *run.splits, projections=False)
    expected = measure(pipeline, *frozen, pipeline.chosen_evaluators)
    assert run.measurements("before") == expected
    assert run.before == {"knn/top1": expected["knn/top1"].value}
    after = run.evaluate()
    assert set(after) == {"knn/top1"}
    (first, before), (last, measured) = events(run.path)
    assert (first, last) == (0, 4), "16 of 32 samples a step, two epochs"
    assert (before, measured) == pytest.approx((run.before["knn/top1"], after["knn/top1"]))


def test_measuring_before_training_changes_no_weight(pipeline, monkeypatch):
    run = pipeline.fit(out="run", progress=False)
    monkeypatch.setattr("ccl_plugins.experiments.train.measure_before", lambda *_: ({}, None, []))
    other = pipeline.fit(out="other", progress=False)
    assert other.before == {}
    states = [each.parts.method.state_dict() for each in (run, other)]
    assert_equal(*states)


def test_a_resumed_run_is_not_measured_before_training_again(pipeline, counted):
    with pytest.raises(RunInterrupted):
        pipeline.fit(out="run", progress=False, callbacks=[StopAfter(1)])
    measured, calls = ccl.load("run").measurements("before"), counted.count(32)
    run = pipeline.fit(out="run", progress=False, resume=True)
    assert counted.count(32) == calls  # the monitor measures fewer, of a bank
    assert run.measurements("before") == measured
    assert [step for step, _ in events(run.path)] == [0]


def test_without_an_evaluator_nothing_is_measured_before_training(pipeline, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("features were computed")

    monkeypatch.setattr("ccl_plugins.experiments.measure.frozen_features", refuse)
    quiet = ccl.Pipeline.from_dict({**pipeline.to_dict(), "evaluate": []})
    run = quiet.fit(out="run", progress=False)
    assert run.before == run.evaluate() == {}
    assert len(run.splits[1]) == 8


def test_data_that_an_evaluator_cannot_take_is_known_before_training_and_overwriting(
    pipeline, capsys
):
    run = pipeline.fit(out="runs/x", progress=False)
    weights = run.folder.weights.read_bytes()
    Path("x.toml").write_text(TOML.replace('"knn"', '{use = "knn", k = 33}'))
    assert main(["train", "x.toml", "--overwrite", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "ccl: x.toml: k=33 neighbors of only 32 training samples (raised by evaluator"
        " ccl-plugins/knn)"
    )
    assert run.folder.weights.read_bytes() == weights


def test_a_logger_of_ones_own_gets_the_metrics_before_training(pipeline):
    own = CSVLogger("logs")
    run = pipeline.fit(out="run", progress=False, logger=own)
    assert not [*Path("run").glob("events*")]
    own.save()
    first = (Path(own.log_dir) / "metrics.csv").read_text().splitlines()
    assert "evaluation/knn/top1" in first[0]
    assert str(run.before["knn/top1"]) in first[1].split(",")


def test_evaluators_that_nobody_chose_do_not_keep_a_run_from_training(pipeline):
    record = {k: v for k, v in pipeline.to_dict().items() if k not in ("schema", "evaluate")}
    columns = {"features": torch.randn(16, 4), "label": torch.arange(16) % 2}
    save_file(columns, "few.safetensors")
    few = {"use": "features", "train": "few.safetensors", "test": "few.safetensors"}
    default = ccl.Pipeline.from_dict({**record, "dataset": few})
    with pytest.warns(UserWarning, match="is left out: k=20 neighbors of only 16"):
        run = default.fit(out="run", progress=False)
    assert [*run.before] == ["linear/top1"]
    assert run.progress == (1, 1)
    with pytest.warns(UserWarning, match="is left out: k=20 neighbors of only 16"):
        assert [*run.evaluate()] == ["linear/top1"]


def test_a_pretrained_backbone_is_measured_with_its_weights(tmp_path):
    torch.manual_seed(0)
    torch.save(timm.create_model("test_resnet", num_classes=0).state_dict(), tmp_path / "w.pth")
    given = {
        "dataset": {"use": "subset", "of": "color_digits", "train": 64, "test": 32},
        "method": {"use": "simclr", "hidden": 16, "dim": 8},
        "transform": {"use": "simclr", "size": 32, "jitter": 0.0, "gray": 0.0, "blur": 0.0},
        "objective": "infonce",
        "evaluate": ["knn"],
        "fit": {"epochs": 1, "batch_size": 32, "workers": 0},
    }
    backbone = {"use": "timm", "name": "test_resnet", "checkpoint_path": str(tmp_path / "w.pth")}
    run = ccl.Pipeline.from_dict({**given, "backbone": backbone}).fit(
        out=tmp_path / "run", progress=False
    )
    untrained = run.pipeline.build()  # its heads are drawn anew, and no evaluator sees them
    frozen = freeze(untrained.method, run.pipeline, 0, *run.splits, projections=False)
    expected = measure(run.pipeline, *frozen, run.pipeline.chosen_evaluators)
    assert run.measurements("before") == expected

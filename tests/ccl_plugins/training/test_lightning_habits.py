"""Lightning's own callbacks and loggers work as they do in any other project."""

from __future__ import annotations

import csv
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from support.resuming import StopAfter, assert_equal
from support.training_fakes import FakeDataset, fit, make_parts
from support.vector_pipeline import make_pipeline
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ccl_plugins.conditions import Label
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.training.fitting import FitResult
from ccl_plugins.training.settings import FitSettings


def run(out: Path, callbacks: Any = (), resume: bool = False, **options: Any) -> FitResult:
    """5 steps an epoch."""
    names = ("loggers", "progress")
    given = {name: options.pop(name) for name in names if name in options}
    settings = {"epochs": 4, "batch_size": 8, "workers": 0, "log_every": 3, **options}
    parts = make_parts(dataset=FakeDataset(44), conditions={"condition": Label()})
    out.mkdir(exist_ok=True)
    given = {"progress": False, **given}
    return fit(parts, FitSettings(**settings), out, {}, resume=resume, callbacks=callbacks, **given)


class Reads(Callback):
    """What other callbacks can read, at every hook where Lightning's read it."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.epochs: list[float] = []
        self.losses: list[float] = []
        self.names: set[str] = set()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.losses.append(float(outputs["loss"]))
        self.steps.append(float(trainer.callback_metrics["loss"]))

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self.epochs.append(float(trainer.callback_metrics["loss"]))
        self.names |= {*trainer.callback_metrics}


def test_loss_and_monitors_are_in_callback_metrics(tmp_path: Path) -> None:
    reads = Reads()
    run(tmp_path, [reads])
    means = torch.tensor(reads.losses).view(4, 5).mean(1)
    torch.testing.assert_close(torch.tensor(reads.epochs), means)
    expected = torch.tensor([reads.losses[0]] * 2 + [sum(reads.losses[:3]) / 3] * 2)
    torch.testing.assert_close(torch.tensor(reads.steps[:4]), expected)
    assert {"lr", "images_per_second", "condition/condition/values"} <= reads.names


def test_a_resumed_epoch_has_the_mean_of_the_whole(tmp_path: Path) -> None:
    whole, late = Reads(), Reads()
    run(tmp_path / "whole", [whole])
    run(tmp_path / "broken", [StopAfter(8)])
    run(tmp_path / "broken", [late], resume=True)
    assert late.epochs == whole.epochs[1:]


def test_early_stopping_ends_a_run_as_finished(tmp_path: Path) -> None:
    """With its weights; resuming it trains no further, and without the callback it goes on."""

    def stopping() -> EarlyStopping:
        return EarlyStopping("loss", patience=1, min_delta=1e9)

    result = run(tmp_path, [stopping()])
    assert result == FitResult(finished=True, step=10, total=20)
    assert read_checkpoint(RunFolder(tmp_path).weights)["step"] == 10
    assert [path.name for path in RunFolder(tmp_path).steps] == ["step-00000010.ckpt"]
    logged = EventAccumulator(str(tmp_path)).Reload().Scalars("loss")
    assert [event.step for event in logged] == [3, 6, 9, 10]
    assert run(tmp_path, [stopping()], resume=True) == result
    assert run(tmp_path, resume=True) == FitResult(finished=True, step=20, total=20)


def test_an_own_model_checkpoint_does_not_disturb_the_runs(tmp_path: Path) -> None:
    names = {"filename": "step-{step:08d}", "auto_insert_metric_name": False}
    best = ModelCheckpoint(monitor="loss", save_top_k=1, **names)  # type: ignore[arg-type]
    often = ModelCheckpoint(every_n_train_steps=2, save_last=True)
    inside = ModelCheckpoint(tmp_path / "own" / "checkpoints", filename="step-{step}")
    run(tmp_path / "own", [best, often, inside], checkpoint_every=2)
    run(tmp_path / "without", checkpoint_every=2)
    found = [path.name for path in RunFolder(tmp_path / "own").steps]
    assert found == [path.name for path in RunFolder(tmp_path / "without").steps]
    assert Path(best.best_model_path).parent == tmp_path / "own" / "lightning" / "checkpoints"
    assert read_checkpoint(Path(best.best_model_path))["global_step"] in (5, 10, 15, 20)
    assert Path(often.last_model_path).exists()
    assert Path(inside.best_model_path).parent == tmp_path / "own" / "checkpoints"
    weights = [read_checkpoint(RunFolder(tmp_path / n).weights) for n in ("own", "without")]
    assert_equal(weights[0]["method"], weights[1]["method"])
    assert run(tmp_path / "own", epochs=5, resume=True).step == 25


def test_a_model_checkpoint_without_logger_does_not_disturb_the_runs(tmp_path: Path) -> None:
    own = ModelCheckpoint(monitor="loss")
    run(tmp_path, [own], loggers=())
    assert Path(own.best_model_path).parent == tmp_path / "lightning" / "checkpoints"
    assert not list(tmp_path.glob("events.*"))


@pytest.fixture
def in_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of one process, as ``sbatch`` starts it."""
    numbers = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "1", **numbers}
    for name, value in job.items():
        monkeypatch.setenv(name, value)


class Signals(Callback):
    """Signals the process before the eighth step."""

    def __init__(self, number: int) -> None:
        self.number = number

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == 7:
            os.kill(os.getpid(), self.number)


@pytest.mark.usefixtures("in_slurm")
def test_a_signal_of_slurm_stops_a_run_and_lightning_submits_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytorch_lightning.trainer.connectors.signal_connector.call", pytest.fail)
    result = run(tmp_path / "broken", [Signals(signal.SIGUSR1)])
    assert result == FitResult(finished=False, step=8, total=20)
    assert [path.name for path in (tmp_path / "broken").rglob("*.ckpt")] == ["step-00000008.ckpt"]
    run(tmp_path / "broken", resume=True)
    run(tmp_path / "whole")
    weights = [read_checkpoint(RunFolder(tmp_path / n).weights) for n in ("broken", "whole")]
    assert_equal(weights[0]["method"], weights[1]["method"])


@pytest.mark.usefixtures("in_slurm")
def test_a_run_restores_no_checkpoint_that_lightning_finds(tmp_path: Path) -> None:
    run(tmp_path / "other", [Signals(signal.SIGTERM)], seed=1)
    (tmp_path / "own" / "lightning").mkdir(parents=True)
    (found,) = (tmp_path / "other" / "checkpoints").iterdir()
    shutil.copy(found, tmp_path / "own" / "lightning" / "hpc_ckpt_1.ckpt")
    for name in ("own", "without"):
        assert run(tmp_path / name).step == 20
    weights = [read_checkpoint(RunFolder(tmp_path / n).weights) for n in ("own", "without")]
    assert_equal(weights[0]["method"], weights[1]["method"])


def test_a_learning_rate_monitor_logs(tmp_path: Path) -> None:
    run(tmp_path, [LearningRateMonitor("step")])
    names = EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"]
    assert any(name.startswith("lr-AdamW") for name in names)


def test_a_logger_may_be_passed(tmp_path: Path) -> None:
    written = CSVLogger(tmp_path / "csv")
    board = TensorBoardLogger(tmp_path / "board", name="a", version=0)
    run(tmp_path / "run", loggers=[written, board])
    assert not list((tmp_path / "run").glob("events.*"))
    with open(Path(written.log_dir) / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows if row["loss"]] == ["3", "6", "9", "12", "15", "18", "20"]
    assert any(row["condition/condition/values"] for row in rows)
    logged = EventAccumulator(str(tmp_path / "board" / "a" / "version_0")).Reload()
    assert [event.step for event in logged.Scalars("loss")] == [3, 6, 9, 12, 15, 18, 20]


@pytest.mark.parametrize("logger", ["csv", [1], 3])
def test_what_is_no_logger_is_refused(tmp_path: Path, logger: Any) -> None:
    with pytest.raises(TypeError, match="logger must be True"):
        make_pipeline().fit(out=tmp_path / "run", logger=logger)

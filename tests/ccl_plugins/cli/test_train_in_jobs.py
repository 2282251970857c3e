"""Runs that are submitted as jobs, and begin again where they were stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments import jobs

submitit = pytest.importorskip("submitit")


@pytest.fixture(autouse=True)
def one_thread(in_a_folder_with_data: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("x.toml").write_text(TOML)


class Executor:
    """Takes what is submitted, in place of SLURM's."""

    made: list[Any] = []  # noqa: RUF012  emptied by the fixture

    def __init__(self, folder: Any, cluster: str | None = None) -> None:
        self.folder, self.cluster, self.options, self.submitted = folder, cluster, {}, None
        Executor.made.append(self)

    def update_parameters(self, **options: Any) -> None:
        if "nonsense" in options:
            raise NameError("Unknown argument 'nonsense'")
        self.options |= options

    def submit(self, training: Any) -> Any:
        self.submitted = training
        return type("Job", (), {"job_id": "17"})()


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    Executor.made = []
    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    return Executor.made


def test_a_job_has_the_shape_and_the_values_of_its_run(slurm, capsys):
    words = "train x.toml --launcher slurm --epochs 7 --set fit.batch_size=8 --seeds 3,4 --resume"
    options = ["--slurm", "timeout_min=600", "--slurm", "slurm_partition=gpu"]
    status = main([*words.split(), *options])
    assert status == 0
    assert len(slurm) == 2
    for executor, seed in zip(slurm, (3, 4), strict=True):
        folder = Path(f"runs/x-seed-{seed}").resolve()
        assert (executor.cluster, executor.folder) == ("slurm", folder / "logs")
        assert executor.options == {
            "name": f"x-seed-{seed}",
            "nodes": 1,
            "tasks_per_node": 1,
            "gpus_per_node": 1,
            "timeout_min": 600,
            "slurm_partition": "gpu",
        }
        training = executor.submitted
        assert training.first == ["--resume"]
        words = training.arguments
        assert words[:3] == [
            str(folder / "logs" / f"x-seed-{seed}.toml"),
            "--out",
            str(folder.parent),
        ]
        assert {"fit.batch_size=8", "fit.epochs=7", f"fit.seed={seed}"} == {*words[5::2]}
        assert (
            f"{folder}: job 17, output in {folder / 'logs'}" in capsys.readouterr().err or seed == 4
        )


def test_a_job_trains_the_file_as_it_was_submitted(slurm):
    assert main(["train", "x.toml", "--launcher", "slurm"]) == 0
    Path("x.toml").write_text("nonsense")
    copied = slurm[0].submitted.arguments[0]
    assert Path(copied).read_text() == TOML


def test_options_that_submitit_does_not_know_are_a_mistake(slurm, capsys):
    assert main(["train", "x.toml", "--launcher", "slurm", "--slurm", "nonsense=1"]) == 2
    assert "Unknown argument 'nonsense'" in capsys.readouterr().err
    assert main(["train", "x.toml", "--slurm", "timeout_min=1"]) == 2
    assert "give --launcher slurm" in capsys.readouterr().err


def test_a_machine_without_slurm_is_said(capsys):
    assert main(["train", "x.toml", "--launcher", "slurm"]) != 0
    assert "slurm" in capsys.readouterr().err.lower()


def test_a_missing_submitit_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert main(["train", "x.toml", "--launcher", "local"]) == 2
    assert (
        '--launcher local needs submitit: pip install "ccl-plugins[sweep]"'
        in capsys.readouterr().err
    )


def test_a_mistake_in_the_file_is_said_before_a_job_is_submitted(slurm):
    assert main(["train", "x.toml", "--launcher", "slurm", "--set", "objective.temperatur=1"]) == 2
    assert not slurm


def weights(folder: str) -> Any:
    return torch.load(ccl.load(folder).folder.weights, weights_only=True)["method"]


TRAINS = """
import signal, sys, time
ignored = [signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGUSR1, signal.SIGUSR2)]
print("trains", *ignored, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
open("ready", "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize("heard", [True, False])
def test_training_is_asked_for_a_checkpoint_before_its_job_is_submitted_again(
    heard, monkeypatch, capfd, request
):
    handler = (lambda *_: None) if heard else signal.SIG_DFL
    request.addfinalizer(partial(signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1)))
    signal.signal(signal.SIGUSR1, handler)
    real, begun = subprocess.Popen, []

    def popen(command: Any) -> Any:
        begun.append(command)
        return real([sys.executable, "-c", TRAINS])

    monkeypatch.setattr(subprocess, "Popen", popen)
    training = jobs.Training(["x.toml", "--out", "runs"], ["--overwrite"])
    found: list[Any] = []
    asleep = time.sleep

    def preempt(
        seconds: float,
    ) -> None:  # in the main thread, within the wait, as submitit's handler
        monkeypatch.setattr(time, "sleep", asleep)
        while not Path("ready").exists():
            asleep(0.01)
        found.append(training.checkpoint())

    monkeypatch.setattr(time, "sleep", preempt)
    assert training() == 130
    assert begun[0][1:] == ["-m", "ccl_plugins", "train", "x.toml", "--out", "runs", "--overwrite"]
    again = found[0].function
    assert (again.arguments, again.first) == (training.arguments, ["--resume"])
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGUSR1) is handler
    said = capfd.readouterr().out
    assert f"trains {heard} True" in said, "SLURM signals all processes of a job"


@pytest.mark.slow
def test_a_job_that_is_preempted_goes_on_and_ends_as_if_it_had_not_been():
    words = ["--set", "fit.epochs=200", "--set", "fit.checkpoint_every=10", "--quiet"]
    file = str(Path("x.toml").resolve())
    training = jobs.Training([file, "--out", str(Path("jobs").resolve()), *words])
    folder = Path("jobs/x").resolve()
    submitted = jobs.submit({folder: (training, 1, 1)}, "local", {})[folder]
    deadline = time.monotonic() + 120
    while not any((folder / "checkpoints").glob("*.ckpt")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    controller = submitted._process.pid
    (task,) = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    os.kill(int(task), signal.SIGUSR2)  # as SLURM does before the end of a job
    assert submitted.result() == 0
    log = Path(submitted.paths.stderr).read_text() + Path(submitted.paths.stdout).read_text()
    assert "Requeued job" in log
    assert main(["train", file, "--out", "whole", *words]) == 0
    torch.testing.assert_close(weights("jobs/x"), weights("whole/x"), rtol=0, atol=0)


@pytest.mark.slow
def test_a_job_that_fails_says_so(monkeypatch, capfd):
    with pytest.raises(RuntimeError, match="ccl train ended with status 2; its output says why"):
        jobs.Training(["nothing.toml"])()
    assert "nothing.toml" in capfd.readouterr().err

    class Failed(Executor):
        def submit(self, training: Any) -> Any:
            error = RuntimeError("ccl train ended with 1")
            return type("Job", (), {"job_id": "18", "exception": lambda _: error})()

    monkeypatch.setattr(submitit, "LocalExecutor", Failed)
    assert main(["train", "x.toml", "--launcher", "local"]) == 1
    assert f"ccl: {Path('runs/x').resolve()}: ccl train ended with 1" in capfd.readouterr().err


def test_a_process_that_ended_is_seen_without_the_lock_of_poll():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert not jobs._has_ended(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    with process._waitpid_lock:  # as poll holds it while a signal arrives
        for _ in range(100):
            if jobs._has_ended(process.pid):
                break
            time.sleep(0.05)
        assert jobs._has_ended(process.pid)
    process.wait()
    assert jobs._has_ended(process.pid)

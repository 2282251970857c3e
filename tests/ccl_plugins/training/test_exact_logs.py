"""What a stopped and resumed run has logged is what an unbroken one has: same steps, same values."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from support.resuming import assert_equal
from support.training_fakes import FakeDataset, fit, make_parts
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from ccl_plugins.conditions import Clusters
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.kernels import Delta
from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import FairCCLK, InfoNCE, Mixture
from ccl_plugins.training.settings import FitSettings


class KillAfter(Callback):
    """Sends the process a signal after a number of batches: SIGKILL leaves it no time for anything."""

    def __init__(self, batches: int, number: int) -> None:
        self.left = batches
        self.number = number

    def on_train_batch_start(self, *_: Any) -> None:
        self.left -= 1
        if self.left == -1:
            os.kill(os.getpid(), self.number)


class Small(nn.Sequential):
    num_features = 8

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8), nn.Dropout(0.2))


def run(out: str, stop: int = 0, number: int = signal.SIGKILL, resume: bool = False) -> bool:
    """MoCo v2 with a refreshed condition, a scheduled and a learned temperature; 5 batches an epoch."""
    torch.manual_seed(0)
    method = MoCoV2(hidden=8, dim=4, batch_norm=True, queue_size=12, backbone=Small())
    learned, scheduled = (
        {"learn": True, "start": 0.5},
        {"schedule": "linear", "start": 1, "end": 0, "period": 1.7},
    )
    parts = make_parts(
        dataset=FakeDataset(44),
        method=method,
        objective=Mixture([InfoNCE(learned), FairCCLK(Delta())], weights=[1.0, scheduled]),
        conditions={"condition": Clusters(3)},
    )
    settings = FitSettings(
        4, 8, workers=0, log_every=4, accumulate=2, checkpoint_every=2, checkpoint_every_steps=5
    )
    stops = [KillAfter(stop, number)] if stop else []
    return fit(
        parts, settings, Path(out), {}, resume=resume, callbacks=stops, progress=False
    ).finished


def scalars(out: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(out), size_guidance={"scalars": 0}).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
        if tag != "images_per_second"
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    assert run(str(out))
    return out


# 3 optimizer steps an epoch; checkpoints after steps 5, 6, 10, 12.
@pytest.mark.parametrize(
    ("stop", "number"),
    [(13, signal.SIGKILL), (7, signal.SIGTERM), (10, signal.SIGINT)],
)
def test_a_resumed_run_has_the_weights_and_the_log_of_an_unbroken_one(
    tmp_path: Path, whole: Path, stop: int, number: int
) -> None:
    if number == signal.SIGKILL:
        killed = multiprocessing.get_context("forkserver").Process(
            target=run, args=(str(tmp_path), stop, number)
        )
        killed.start()
        killed.join(120)
        assert killed.exitcode == -9
    else:
        assert not run(str(tmp_path), stop, number)
    assert not RunFolder(tmp_path).weights.exists()
    # TensorBoard orders event files by the second in which they are made, which their names have.
    made = max(int(file.name.split(".")[3]) for file in tmp_path.glob("events.out.tfevents.*"))
    while int(time.time()) <= made:
        time.sleep(0.05)
    assert run(str(tmp_path), resume=True)
    found, expected = (read_checkpoint(RunFolder(out).weights) for out in (tmp_path, whole))
    for name in ("method", "objective"):
        assert_equal(found[name], expected[name])
    assert any("queue.keys" in name for name in expected["method"])
    logged = scalars(whole)
    assert [step for step, _ in logged["loss"]] == [4, 8, 12]
    assert [step for step, _ in logged["condition/condition/values"]] == [1, 4, 7, 10]
    assert scalars(tmp_path) == logged

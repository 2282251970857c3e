"""One process at a time writes to a run's folder."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import Callback
from support.evaluating_ranks import measure_together
from support.forks import started
from support.resuming import assert_equal
from support.vector_pipeline import make_pipeline

from ccl_plugins.experiments.pipeline import Run
from ccl_plugins.experiments.train import RunExists, check_run, prepare, rehearse, train
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.lock import LOCK, OWNER, FolderGone, FolderInUse, owning

EPOCHS = {"epochs": 30, "keep_last": 1}


class Slow(Callback):
    """Training that others come across."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def on_train_batch_end(self, *_: Any) -> None:
        time.sleep(self.pause)


def resume(out: Path, pause: float = 0.02, **also: Any) -> Any:
    callbacks = [Slow(pause)]
    return make_pipeline().fit(
        out=out, resume=True, progress=False, callbacks=callbacks, **EPOCHS, **also
    )


def test_of_two_that_resume_at_once_one_proceeds(finished_run, copied_run, tmp_path):
    refused = (FolderInUse, RunExists)
    both = [started(partial(resume, copied_run), refused) for _ in range(2)]
    for each in both:
        each.join()
    assert sorted(each.exitcode for each in both) == [0, 3]
    whole = make_pipeline().fit(
        out=Path(shutil.copytree(finished_run, tmp_path / "whole")),
        resume=True,
        progress=False,
        **EPOCHS,
    )
    weights = [
        read_checkpoint(folder / "weights.pt")["method"] for folder in (copied_run, whole.path)
    ]
    assert_equal(*weights)
    assert not {LOCK, OWNER} & {path.name for path in copied_run.iterdir()}


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_run_in_use_is_refused_and_one_that_was_killed_is_not(copied_run, workers):
    child = started(partial(resume, copied_run, pause=60, workers=workers))  # until it is killed
    while not (copied_run / OWNER).exists():
        assert child.is_alive()
        time.sleep(0.01)
    try:
        message = rf"run is in use: process {child.pid} on '.*' has held it since"
        for given in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(FolderInUse, match=message):
                make_pipeline().fit(out=copied_run, **EPOCHS, **given)
        with pytest.raises(FolderInUse, match=message):
            Run(copied_run, make_pipeline()).evaluate()
    finally:
        child.kill()
        child.join()
    run = make_pipeline().fit(out=copied_run, resume=True, progress=False, **EPOCHS)
    assert run.evaluate()


def test_a_run_that_went_on_since_it_was_checked_is_not_thrown_back(copied_run):
    prepared = prepare(check_run(make_pipeline(epochs=4), copied_run, resume=True))
    make_pipeline(epochs=3).fit(out=copied_run, resume=True, progress=False)
    with pytest.raises(RunExists, match="another process has continued this run: start again"):
        train(prepared, progress=False)


def test_a_lock_that_was_left_is_no_run(tmp_path):
    for name in (LOCK, OWNER):
        (tmp_path / name).write_text("")
    run = make_pipeline().fit(out=tmp_path, progress=False)
    with owning(tmp_path), pytest.raises(FolderInUse, match=f"process {os.getpid()} on"):
        run.evaluate()


class Moves(Callback):
    """Moves the run's folder in the middle of an epoch."""

    def __init__(self, folder: Path, to: Path) -> None:
        self.folder, self.to = folder, to

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == trainer.num_training_batches + 1:
            self.folder.rename(self.to)


@pytest.mark.filterwarnings("ignore:the logger tensorboard failed")
def test_a_run_whose_folder_is_moved_ends_and_can_be_resumed(tmp_path):
    out, moved = tmp_path / "run", tmp_path / "moved"
    with pytest.raises(
        FolderGone, match=r"run was moved or deleted while it trains: step \d+ is not"
    ):
        make_pipeline(epochs=4, checkpoint_every=1).fit(
            out=out, progress=False, callbacks=[Moves(out, moved)]
        )
    assert not (out / "checkpoints").exists()
    moved.rename(out)
    run = make_pipeline(epochs=4, checkpoint_every=1).fit(out=out, resume=True, progress=False)
    whole = make_pipeline(epochs=4).fit(out=tmp_path / "whole", progress=False)
    weights = [read_checkpoint(each.folder.weights)["method"] for each in (run, whole)]
    assert_equal(*weights)


def test_of_the_ranks_of_a_script_each_measures_and_the_first_writes(two_processes, tmp_path):
    (first, *written), (second, *read) = two_processes(measure_together, str(tmp_path / "run"))
    assert second == first
    assert written == read == [first["evaluate"], first["validate"]]


def test_the_first_of_several_processes_rehearses_for_all(tmp_path, monkeypatch):
    prepared = prepare(check_run(make_pipeline(), tmp_path / "run"))
    seen = []
    monkeypatch.setattr("ccl_plugins.training.fitting.rehearse", lambda *given: seen.append(given))
    rehearse(prepared)
    monkeypatch.setenv("LOCAL_RANK", "1")
    rehearse(prepared)
    assert len(seen) == 1

"""Overwriting a run: at every moment the folder holds the old run, the new one or none."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from support.forks import forked, started, status
from support.vector_pipeline import make_pipeline
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer
from torch.utils.tensorboard import SummaryWriter

import ccl_plugins as ccl
from ccl_plugins.experiments.train import check_run
from ccl_plugins.files.run_folder import InTheWay, RunFolder
from ccl_plugins.files.sums import SUMS, write_sums
from ccl_plugins.loggers import TensorBoard
from ccl_plugins.watching.logging import log_evaluation


@pytest.fixture(scope="module")
def old(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with everything that a run's folder may hold, and notes of its user."""
    out = Path(shutil.copytree(finished_run, tmp_path_factory.mktemp("old") / "run"))
    RunFolder(out).note(out / "timm" / "model.safetensors")  # as an export does
    for name in ("timm/model.safetensors", *NOTES):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine" if name in NOTES else "")
    return out


@pytest.fixture
def out(old: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(old, tmp_path / "run"))


NOTES = {
    "notes.txt",
    "events.out.tfevents.1.copied",
    "timm/notes.txt",
    "timm/README.md",
    "checkpoints/notes.txt",
    "checkpoints/my-copy.ckpt",
    "checkpoints/table-mine.safetensors",
    "checkpoints/embeddings-mine",
    ".mine.partial",
}
"""Files of the user, with names as those of a run's files."""


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class Faults:
    """Calls ``fault`` at one of the changes to files below a folder, by an audit hook."""

    CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "open")

    def __init__(self) -> None:
        self.folder, self.at, self.seen = "", 0, 0
        self.fault: Callable[[], None] = lambda: None
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder and event in self.CHANGES and str(arguments[0]).startswith(self.folder):
            self.seen += 1
            if self.seen == self.at:
                self.fault()

    def run(self, folder: Path, at: int, fault: Callable[[], None], work: Callable[[], Any]) -> int:
        """The number of changes that ``work`` made."""
        self.folder, self.at, self.seen, self.fault = str(folder), at, 0, fault
        try:
            work()
        finally:
            self.folder = ""
        return self.seen


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()  # one, since no hook can be removed


def refuse() -> None:
    raise PermissionError(13, "Permission denied")


@cache
def pipelines() -> list[Any]:
    """That of the old run, another one, and one of more epochs."""
    return [make_pipeline(), make_pipeline(temperature=0.5), make_pipeline(epochs=3)]


def assert_old_or_none(out: Path, before: dict[str, bytes]) -> None:
    """The folder holds the old run with every byte, or a resume begins from nothing."""
    now = content(out)
    assert now.keys() >= NOTES
    if "pipeline.json" in now:
        assert before.items() <= now.items()
        return
    with pytest.raises(FileNotFoundError, match="holds no run"):
        ccl.load(out)
    for pipeline in pipelines():
        assert check_run(pipeline, out, resume=True).point is None
        check_run(pipeline, out)  # the folder is free


def test_an_overwrite_that_fails_at_any_change_loses_no_run(old, tmp_path, faults):
    before, changes = content(old), 99
    at = 0
    while (at := at + 1) <= changes:
        out = Path(shutil.copytree(old, tmp_path / str(at)))
        folder = RunFolder(out)
        try:
            changes = faults.run(out, at, refuse, folder.clear)
            assert at > changes
        except PermissionError:
            assert_old_or_none(out, before)
            folder.clear()  # goes on
        assert content(out).keys() == NOTES
    assert at > 10


def killed(out: Path, at: int, faults: Faults) -> bool:
    """Whether another process that deletes the run was killed, without warning, at a change."""
    fault = partial(signal.raise_signal, signal.SIGKILL)
    return status(forked(partial(faults.run, out, at, fault, RunFolder(out).clear))) == -9


def test_an_overwrite_killed_at_any_moment_loses_no_run(old, tmp_path, faults):
    before = content(old)
    at, pipeline = 1, make_pipeline(temperature=0.5)
    while killed(out := Path(shutil.copytree(old, tmp_path / str(at))), at, faults):
        assert_old_or_none(out, before)
        if at % 4 == 0 and not (out / "pipeline.json").exists():
            run = pipeline.fit(out=out, resume=True, progress=False)
            assert run.record["objective"]["temperature"] == 0.5
            assert [path.name for path in RunFolder(out).steps] == [
                "step-00000004.ckpt",
                "step-00000002.ckpt",
            ]
            assert not RunFolder(out).overwritten.exists()
        at += 1
    assert at > 10


def overwrite(out: Path) -> None:
    (out / "started").touch()
    make_pipeline(temperature=0.5).fit(out=out, overwrite=True, progress=False)


@pytest.mark.slow  # above, each change of the deletion; in test_sweep, cells killed at random
def test_an_overwriting_training_killed_at_random_is_old_new_or_none(old, tmp_path):
    """From the first change to the end of the new run."""
    pipeline, draw = make_pipeline(temperature=0.5), random.Random(0)
    for i in range(8):
        out = Path(shutil.copytree(old, tmp_path / str(i)))
        child = started(partial(overwrite, out))
        while not (out / "started").exists():
            time.sleep(0.001)
        time.sleep(draw.random() * 0.5)
        child.kill()
        child.join()
        if (out / "pipeline.json").exists() and ccl.load(out).record["objective"] != (
            pipeline.to_dict()["objective"]
        ):
            with pytest.raises(ValueError, match="another pipeline"):
                pipeline.fit(out=out, resume=True)
            continue
        run = pipeline.fit(out=out, resume=True, progress=False)
        assert RunFolder(out).steps
        assert run.record["objective"]["temperature"] == 0.5


def test_the_record_in_the_checkpoint_is_compared_where_the_folders_record_is_lost(out):
    (out / "pipeline.json").unlink()
    with pytest.raises(ValueError, match=r"another pipeline.*temperature: 0\.1 -> 0\.5"):
        check_run(make_pipeline(temperature=0.5), out, resume=True)
    assert check_run(make_pipeline(), out, resume=True).point.step == 4


def test_nothing_is_deleted_or_written_behind_a_link(out, tmp_path):
    """As where the checkpoints of another run are linked."""
    shutil.move(out / "checkpoints", other := tmp_path / "other")
    (out / "checkpoints").symlink_to(other)
    (out / "history.csv").unlink()
    (out / "history.csv").symlink_to(other / "notes.txt")
    before = content(other)
    for given in ({"overwrite": True}, {"resume": True}):
        with pytest.raises(
            OSError, match=r"checkpoints is a link, but a run writes and deletes only in"
        ):
            make_pipeline().fit(out=out, progress=False, **given)
    RunFolder(out).clear()
    assert content(other) == before
    assert (out / "checkpoints").is_symlink()
    assert not (out / "history.csv").is_symlink()


@pytest.mark.parametrize("name", ["weights.pt", "metrics.json", "checkpoints/step-00000002.ckpt"])
def test_a_file_that_no_run_wrote_is_not_replaced(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(InTheWay, match=rf"{name} is in the way: .*written\.json does not list it"):
        make_pipeline().fit(out=tmp_path, overwrite=True, progress=False)
    assert content(tmp_path) == {name: b"mine"}


@pytest.mark.parametrize("listed", ["../other", "{out}/../other", "a/../../other", "data", ".", ""])
def test_a_list_from_a_stranger_names_nothing_outside_and_no_folder(tmp_path, listed):
    out = tmp_path / "run"
    (out / "data").mkdir(parents=True)
    for file in (out / "data" / "mine", tmp_path / "other"):
        file.write_text("mine")
    (out / "written.json").write_text(
        json.dumps({"written": [listed.replace("{out}", str(out)), "log"]})
    )
    (out / "log").write_text("")
    (out / "loggers.json").write_text('["[!.]*"]')
    RunFolder(out).clear()
    assert content(tmp_path).keys() == {"other", "run/data/mine", "run/loggers.json"}


def test_a_damaged_list_is_named_and_nothing_is_deleted(out):
    before = content(out)
    for text in ("[]", '{"written": 3}', '{"wri', ""):
        (out / "written.json").write_text(text)
        with pytest.raises(ValueError, match=r"written\.json is damaged .* nothing is replaced or"):
            make_pipeline().fit(out=out, overwrite=True, progress=False)
    assert content(out) == {**before, "written.json": b""}


@pytest.mark.parametrize("given", [{"overwrite": True}, {"resume": True, "epochs": 3}])
def test_a_run_that_came_without_its_list_gets_one(out, given):
    (out / "written.json").unlink()
    make_pipeline().fit(out=out, progress=False, **given)
    assert {"pipeline.json", "weights.pt", "history.csv"} <= {*RunFolder(out).own_names()}
    assert content(out).keys() >= NOTES


def test_all_that_a_run_wrote_is_in_its_list(old):
    assert {*RunFolder(old).own_names()} | NOTES | {"written.json", "SHA256SUMS"} >= content(
        old
    ).keys()


def test_the_sums_of_files_of_others_outlive_the_run(out):
    write_sums(out, ["notes.txt"])
    (line,) = [each for each in (out / SUMS).read_text().splitlines() if "notes" in each]
    RunFolder(out).clear()
    assert (out / SUMS).read_text() == f"{line}\n"


def test_nothing_of_a_killed_write_is_left_in_a_run(out):
    for name in ("", "checkpoints", "timm"):
        (out / name / ".weights.pt.0a1b2c3d.partial").mkdir()
        (out / name / ".weights.pt.0a1b2c3d.partial" / "weights.pt").write_text("par")
    make_pipeline().fit(out=out, resume=True, progress=False)
    assert [each.name for each in out.rglob("*.partial")] == [".mine.partial"]


def test_a_finished_run_that_is_resumed_has_its_evaluations_once(out):
    for epochs in (2, 2, 3):
        make_pipeline().fit(out=out, resume=True, progress=False, epochs=epochs).evaluate()
    events = EventAccumulator(str(out)).Reload()
    assert [event.step for event in events.Scalars("evaluation/knn/top1")] == [0, 4, 6]


def test_an_evaluation_in_the_second_in_which_a_run_was_resumed_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(9))
    monkeypatch.setattr(event_file_writer.time, "time", lambda: 1_700_000_000.5)
    SummaryWriter(str(tmp_path), purge_step=5).close()
    for value in (0.25, 0.5):
        log_evaluation([TensorBoard().open(tmp_path, 6)], {"knn/top1": value}, 6)
    (event,) = EventAccumulator(str(tmp_path)).Reload().Scalars("evaluation/knn/top1")
    assert (event.step, event.value) == (6, 0.5)

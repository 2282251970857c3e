from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from support.resuming import StopAfter, assert_equal
from support.training_fakes import fit, make_parts

from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.training.settings import FitSettings

FOLDER = "checkpoints"


def run(out: Path, *, resume: bool = False, stop: int = 0, **settings: Any) -> Any:
    callbacks = [*settings.pop("callbacks", ()), *([StopAfter(stop)] if stop else [])]
    given = {"epochs": 2, "batch_size": 8, "workers": 0, "checkpoint_every": 1, **settings}
    record = {"temperature": 0.1}
    return fit(
        make_parts(),
        FitSettings(**given),
        out,
        record,
        resume=resume,
        callbacks=callbacks,
        progress=False,
    )


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def at(out: Path, step: int) -> Path:
    return RunFolder(out).checkpoint(step)


def test_a_checkpoint_is_plain_data_with_the_record(tmp_path: Path) -> None:
    run(tmp_path)
    saved = torch.load(at(tmp_path, 4), weights_only=True)
    record = json.loads(saved["ccl_plugins"]["record"])
    assert record["temperature"] == 0.1
    assert record["data"]["train"]["samples"] > 0
    assert saved["global_step"] == 4
    assert saved["ccl_plugins"]["consumed"] == 4
    assert set(saved["ccl_plugins"]["generators"][0]) == {"python", "numpy", "torch", "cuda"}


@pytest.mark.parametrize(("keep", "steps"), [(1, [8]), (2, [6, 8]), (9, [2, 4, 6, 8])])
def test_as_many_checkpoints_are_kept_as_the_settings_say(
    tmp_path: Path, keep: int, steps: list[int]
) -> None:
    run(tmp_path, epochs=4, keep_last=keep)
    assert sorted((tmp_path / FOLDER).iterdir()) == [at(tmp_path, step) for step in steps]


def test_a_folder_called_like_a_checkpoint_is_none(tmp_path: Path) -> None:
    for name in ("step-00000001.ckpt", "step-00000099.ckpt", "step-9.ckpt", "step-.ckpt"):
        (tmp_path / FOLDER / name).mkdir(parents=True)
    (tmp_path / FOLDER / "step-new.ckpt").write_text("mine")
    assert RunFolder(tmp_path).steps == []
    expected = run(tmp_path)
    assert RunFolder(tmp_path).steps == [at(tmp_path, step) for step in (4, 2)]
    assert run(tmp_path, resume=True) == expected
    assert (tmp_path / FOLDER / "step-00000099.ckpt").is_dir()


def test_checkpoints_may_be_written_between_epochs(tmp_path: Path) -> None:
    run(tmp_path, epochs=4, checkpoint_every=4, checkpoint_every_steps=3, keep_last=9)
    assert RunFolder(tmp_path).steps == [at(tmp_path, step) for step in (8, 6, 3)]


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, keep: int) -> None:
    expected = run(tmp_path, epochs=3)
    weights = read_checkpoint(at(tmp_path, 6))["state_dict"]
    damage(at(tmp_path, 6))
    with pytest.warns(UserWarning, match=r"step-0+6.ckpt is damaged .*from step-0+4.ckpt"):
        assert run(tmp_path, epochs=3, resume=True, keep_last=keep) == expected
    assert_equal(read_checkpoint(at(tmp_path, 6))["state_dict"], weights)


def test_a_damaged_checkpoint_is_not_among_those_kept(tmp_path: Path) -> None:
    run(tmp_path, epochs=3)
    damage(at(tmp_path, 6))
    with pytest.warns(UserWarning, match="is damaged"):
        run(tmp_path, epochs=3, resume=True, checkpoint_every_steps=1, keep_last=1, stop=1)
    assert RunFolder(tmp_path).steps == [at(tmp_path, 5)]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a checkpoint"])
def test_if_none_can_be_read_the_newest_is_named(tmp_path: Path, content: bytes) -> None:
    run(tmp_path)
    at(tmp_path, 4).write_bytes(content)
    damage(at(tmp_path, 2))
    with pytest.raises(DamagedFile, match=r"step-0+4\.ckpt is damaged"):
        run(tmp_path, resume=True)


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    torch.save({"a": Path("x")}, tmp_path / "evil.ckpt")
    with pytest.raises(DamagedFile, match=r"evil\.ckpt"):
        read_checkpoint(tmp_path / "evil.ckpt")


def test_nothing_to_resume_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint to resume from in"):
        run(tmp_path, resume=True)


def test_a_finished_run_resumes_to_itself_and_a_longer_one_goes_on(tmp_path: Path) -> None:
    assert run(tmp_path) == run(tmp_path, resume=True)
    assert run(tmp_path, epochs=4, resume=True).step == 8


def test_what_only_pickle_could_write_is_refused_by_place(tmp_path: Path) -> None:
    class Keeps(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"folder": tmp_path}

    with pytest.raises(TypeError, match=r"/callbacks/.*/folder of a checkpoint is a pathlib"):
        run(tmp_path, callbacks=[Keeps()])
    assert not list(tmp_path.glob("checkpoints/*"))


def test_a_full_disk_is_an_error_that_leaves_the_checkpoint_before_whole(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a disk that is full."""

    class Fills(Callback):
        def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
            size = 3000 if trainer.current_epoch == 1 else resource.RLIM_INFINITY
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    try:
        with pytest.raises(
            OSError, match=r"could not be written; .* is unchanged: '.*step-0+4\.ckpt'"
        ):
            run(tmp_path, callbacks=[Fills()])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["step-00000002.ckpt"]
    assert read_checkpoint(at(tmp_path, 2))["global_step"] == 2
    assert run(tmp_path, resume=True).finished

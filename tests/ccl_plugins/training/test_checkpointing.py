from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Callback
from training_fakes import make_parts

from ccl_plugins import checkpoint
from ccl_plugins.checkpoint import DamagedCheckpoint
from ccl_plugins.training import FitSettings, fit
from ccl_plugins.training.checkpointing import newest

LAST, PREVIOUS = "checkpoints/last.ckpt", "checkpoints/previous.ckpt"


def run(out: Path, *, resume: bool = False, callbacks: Any = (), **settings: Any) -> Any:
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


def test_a_checkpoint_is_plain_data_with_the_record(tmp_path: Path) -> None:
    run(tmp_path)
    saved = torch.load(tmp_path / LAST, weights_only=True)
    assert json.loads(saved["ccl_plugins"]["record"]) == {"temperature": 0.1}
    assert saved["global_step"] == 4
    assert saved["ccl_plugins"]["consumed"] == 4
    assert set(saved["ccl_plugins"]["generators"][0]) == {"python", "numpy", "torch", "cuda"}


def test_the_checkpoint_before_the_last_is_kept_and_nothing_else(tmp_path: Path) -> None:
    run(tmp_path, epochs=3)
    assert checkpoint.read(tmp_path / PREVIOUS)["global_step"] == 4
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
        "last.ckpt",
        "previous.ckpt",
    ]


def test_a_damaged_checkpoint_gives_way_to_the_previous(tmp_path: Path) -> None:
    expected = run(tmp_path, epochs=3)
    weights = checkpoint.read(tmp_path / LAST)["state_dict"]
    damage(tmp_path / LAST)
    with pytest.warns(UserWarning, match=r"last\.ckpt is damaged .*previous\.ckpt"):
        assert run(tmp_path, epochs=3, resume=True) == expected
    torch.testing.assert_close(
        checkpoint.read(tmp_path / LAST)["state_dict"], weights, rtol=0, atol=0
    )


def test_a_missing_last_checkpoint_gives_way_to_the_previous(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / LAST).unlink()
    assert newest(tmp_path / "checkpoints")[0].name == "previous.ckpt"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a checkpoint"])
def test_where_none_can_be_read_the_newest_is_named(tmp_path: Path, content: bytes) -> None:
    run(tmp_path)
    (tmp_path / LAST).write_bytes(content)
    damage(tmp_path / PREVIOUS)
    with pytest.raises(DamagedCheckpoint, match=r"last\.ckpt is damaged"):
        run(tmp_path, resume=True)


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    torch.save({"a": Path("x")}, tmp_path / "evil.ckpt")
    with pytest.raises(DamagedCheckpoint, match=r"evil\.ckpt"):
        checkpoint.read(tmp_path / "evil.ckpt")


def test_nothing_to_resume_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint to resume from in"):
        run(tmp_path, resume=True)


def test_a_finished_run_resumes_to_itself_and_a_longer_one_goes_on(tmp_path: Path) -> None:
    assert run(tmp_path) == run(tmp_path, resume=True)
    assert run(tmp_path, epochs=4, resume=True).step == 8


def test_a_run_is_not_resumed_with_other_settings(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(ValueError, match=r"run with batch_size 8; it cannot be resumed with 10"):
        run(tmp_path, resume=True, batch_size=10)


def test_what_only_pickle_could_write_is_refused_by_place(tmp_path: Path) -> None:
    class Keeps(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"folder": tmp_path}

    with pytest.raises(TypeError, match=r"/callbacks/.*/folder of a checkpoint is a pathlib"):
        run(tmp_path, callbacks=[Keeps()])
    assert not list(tmp_path.glob("checkpoints/*"))


def test_a_write_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    checkpoint.write(path, {"x": 1})
    with pytest.raises(TypeError, match="/x"):
        checkpoint.write(path, {"x": {1, 2}})
    assert checkpoint.read(path) == {"x": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]

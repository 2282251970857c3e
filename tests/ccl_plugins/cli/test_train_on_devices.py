"""``ccl train --devices 2``, as a user types it: Lightning starts the second process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.programs import run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ccl_plugins.cli import main
from ccl_plugins.files.checkpoints import read_checkpoint
from ccl_plugins.files.run_folder import RunFolder

TOML = """
dataset = {{use = "features", train = "{folder}/train.safetensors", test_fraction = 0.2}}
transform = "noise"
backbone = {{use = "mlp", in_features = 6, hidden = [16, 16], batch_norm = false}}
method = {{use = "{method}", hidden = 16, dim = 8, batch_norm = false{more}}}
objective = "infonce"
evaluate = ["knn"]
[fit]
epochs = 2
batch_size = 16
workers = 0
log_every = 1
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    label = torch.arange(200) % 3
    features = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)) + label[:, None]
    save_file({"features": features, "label": label}, tmp_path / "train.safetensors")
    for method, more in (("simclr", ""), ("moco_v2", ", queue_size = 40, momentum = 0.9")):
        text = TOML.format(folder=tmp_path, method=method, more=more)
        (tmp_path / f"{method}.toml").write_text(text)
    return [str(tmp_path / f"{method}.toml") for method in ("simclr", "moco_v2")]


def losses(run: Path) -> list[tuple[int, float]]:
    events = EventAccumulator(str(run)).Reload()
    return [(event.step, event.value) for event in events.Scalars("loss")]


@pytest.mark.slow
def test_two_devices_train_one_pipeline_after_another_as_one_does(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Losses and weights after 20 steps, and one table at the end, from the first process alone."""
    assert main(["train", *files, "--out", str(tmp_path / "one"), "--quiet"]) == 0
    table = capsys.readouterr().out
    words = ["train", *files, "--out", str(tmp_path / "two"), "--quiet", "--devices", "2"]
    done = run("-m", "ccl_plugins", *words, env=os.environ, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout == table.replace(f"{tmp_path}/one/", f"{tmp_path}/two/")
    for name in ("simclr", "moco_v2"):
        one, two = tmp_path / "one" / name, tmp_path / "two" / name
        found, expected = (read_checkpoint(RunFolder(run).weights) for run in (two, one))
        torch.testing.assert_close(found["method"], expected["method"], rtol=1e-5, atol=1e-5)
        assert [step for step, _ in losses(one)] == list(range(1, 21))
        torch.testing.assert_close(losses(two), losses(one), rtol=1e-5, atol=1e-5)
    words[words.index("2")] = "1"
    assert main([*words, "--resume"]) == 2
    assert "fit.devices: 2 -> 1" in capsys.readouterr().err


@pytest.mark.slow
def test_two_devices_say_everything_once_and_a_warning_on_one_line(tmp_path: Path) -> None:
    """The header, a warning of each process and its progress; nothing of Lightning's."""
    label = torch.arange(64)
    columns = {"features": torch.randn(64, 6), "label": label % 2, "one": label * 0}
    save_file(columns, tmp_path / "train.safetensors")
    text = TOML.format(folder=tmp_path, method="simclr", more="").replace(
        '"infonce"', '"scl"\ncondition = {use = "column", name = "one"}'
    )
    (tmp_path / "a.toml").write_text(text)
    words = ["train", str(tmp_path / "a.toml"), "--out", str(tmp_path / "runs"), "--devices", "2"]
    done = run("-m", "ccl_plugins", *words, env=os.environ, timeout=180)
    assert done.returncode == 0, done.stderr
    header, before, warning, progress = done.stderr.splitlines()
    assert header.startswith(f"{tmp_path}/a.toml: scl(")
    assert before.startswith("before training: ")
    assert warning.startswith("ccl: warning: step 0: condition 'condition' is constant")
    assert progress.startswith("step 6 of 6, loss 0, ")

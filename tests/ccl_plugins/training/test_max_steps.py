"""A run that ends after some steps, within its epochs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.resuming import assert_equal
from support.small_pipeline import TOML
from support.small_pipeline import in_a_folder_with_data as in_a_folder_with_data

import ccl_plugins as ccl
from ccl_plugins.cli import main
from ccl_plugins.experiments.curves import curves
from ccl_plugins.protocols import Length
from ccl_plugins.schedules import Cosine, Step


@pytest.fixture
def file(in_a_folder_with_data: None, tmp_path: Any) -> Any:
    path = tmp_path / "x.toml"
    path.write_text(TOML)
    return path


def fit(
    file: Any, out: str, resume: bool = False, schedule: Any = "constant", **settings: Any
) -> Any:
    """A run of 32 samples, 16 in a step."""
    settings = {
        "epochs": 3,
        "log_every": 1,
        "checkpoint_every": 3,
        **settings,
        "schedule": schedule,
    }
    pipeline = ccl.Pipeline.from_toml(file, seed=0)
    return pipeline.fit(out=out, progress=False, resume=resume, **settings)


def losses(run: Any) -> list[float]:
    return [value for _, value in curves(run)["loss"]]


def weights(run: Any) -> Any:
    return torch.load(run.folder.weights, weights_only=True)["method"]


def test_it_has_the_first_steps_of_the_longer_run(file):
    short, whole = fit(file, "short", max_steps=3), fit(file, "whole")
    assert losses(short) == losses(whole)[:3]
    assert short.folder.steps == [short.folder.checkpoint(3)]
    assert fit(file, "short", resume=True, max_steps=3).path == short.path, "nothing is left to do"
    assert set(short.evaluate()) == {"knn/top1"}


@pytest.mark.parametrize(
    "more", [{"max_steps": 5}, {"max_steps": None}, {"max_steps": None, "epochs": 4}]
)
def test_it_goes_on_for_more_steps_as_if_it_had_not_ended(file, more):
    fit(file, "a", max_steps=3)
    resumed, whole = fit(file, "a", resume=True, **more), fit(file, "b", **more)
    assert_equal(weights(resumed), weights(whole))
    assert losses(resumed) == losses(whole)


def test_it_goes_on_if_it_ended_with_an_epoch(file):
    ended = fit(file, "a", max_steps=2)
    assert ended.folder.steps == [ended.folder.checkpoint(2)]
    resumed, whole = fit(file, "a", resume=True, max_steps=5), fit(file, "b", max_steps=5)
    assert losses(resumed) == losses(whole)


def test_fewer_steps_are_refused(file):
    fit(file, "a", max_steps=5)
    with pytest.raises(
        ValueError, match=r"fit.max_steps: 5 -> 3 \(there may be more steps, not fewer\)"
    ):
        fit(file, "a", resume=True, max_steps=3)


def test_schedules_end_with_it():
    length = Length(10, 4, 1, max_steps=18)
    falls = Cosine(reach_end=True)
    assert falls(17, length) == pytest.approx(0, abs=1e-12)
    assert falls(16, length) > 0
    by_epoch = Cosine("epoch", reach_end=True)
    assert by_epoch(17, length) == pytest.approx(0, abs=1e-12), "the fifth epoch is the last"
    assert Step([2])(17, length) == Step([2])(17, Length(10, 4, 1))


def test_a_warm_up_that_is_longer_is_refused(file):
    with pytest.raises(
        ValueError, match="max_steps is 3, within the warm-up of 2 epochs of 2 steps"
    ):
        fit(file, "a", max_steps=3, warmup_epochs=2)


def test_the_command_line_takes_it_and_counts_to_it(file, capsys):
    assert main(["train", str(file), "--max-steps", "3", "--epochs", "3", "--out", "run"]) == 0
    assert "step 3 of 3, " in capsys.readouterr().err

"""Two ranks train as one process does, whatever the number of samples."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from support import training_ranks


@pytest.mark.parametrize(
    ("method", "settings", "tolerance"),
    [
        # 21 samples are 2 batches of 8 in an epoch.
        ("moco_v2", {"epochs": 5}, 1e-5),
        ("simclr, batched views", {"epochs": 2, "precision": "64-true"}, 1e-5),
        ("simclr, kept statistics", {"epochs": 2, "micro_batch": 3, "precision": "64-true"}, 1e-9),
        ("simclr, features alone", {"epochs": 2, "precision": "64-true"}, 1e-9),
        pytest.param(
            "simclr with lora",
            {"epochs": 3, "precision": "64-true"},
            1e-9,
            marks=pytest.mark.skipif(find_spec("peft") is None, reason="needs peft"),
        ),
        # In float64: a bias of keys in attention has no gradient but rounding, which Adam scales up.
        ("dual with a queue", {"epochs": 5, "micro_batch": 3, "precision": "64-true"}, 1e-9),
        ("ibot with two heads", {"epochs": 2, "micro_batch": 3, "precision": "64-true"}, 1e-9),
        ("simclr", {"epochs": 5, "accumulate": 2, "precision": "64-true"}, 1e-9),
        (
            "moco_v2",
            {"epochs": 4, "micro_batch": 3, "anchors_at_once": 3, "precision": "64-true"},
            1e-9,
        ),
    ],
)
def test_two_ranks_train_as_one_process(
    two_processes: Any, tmp_path: Path, method: str, settings: Any, tolerance: float
) -> None:
    """Losses, weights, momentum encoder and queue are those of one process with the whole batch."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    without = {k: v for k, v in settings.items() if k not in ("micro_batch", "anchors_at_once")}
    weights, table, losses = training_ranks.train(str(tmp_path / "one"), 1, method, **without)
    arguments = (str(tmp_path / "two"), method, settings)
    both = two_processes(training_ranks.train_as_rank, *arguments)
    for found, found_table, found_losses in both:
        near = {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(found, weights, **near)
        torch.testing.assert_close(found_table, table, **near)
        torch.testing.assert_close(found_losses, losses, **near)
    torch.testing.assert_close(both[0], both[1], rtol=0, atol=0)


def test_two_ranks_share_a_table_in_a_file(two_processes: Any, tmp_path: Path) -> None:
    weights, table, losses = two_processes(training_ranks.train_as_rank, str(tmp_path / "memory"))[
        0
    ]
    for *found, in_file in two_processes(training_ranks.train_with_files, str(tmp_path / "files")):
        torch.testing.assert_close(found, [weights, table, losses], rtol=0, atol=0)
        assert in_file
    (file,) = (tmp_path / "files" / "checkpoints").glob("table-*")
    assert file.name == "table-condition-1.safetensors"


def test_ranks_with_unequal_batches_are_refused(two_processes: Any, tmp_path: Path) -> None:
    for message in two_processes(training_ranks.train_unevenly, str(tmp_path)):
        assert "they have [4, 3] samples, by rank" in message


@pytest.mark.parametrize("objective", [training_ranks.Local, training_ranks.Replicated])
def test_a_loss_that_is_not_finite_on_one_rank_stops_both(
    two_processes: Any, tmp_path: Path, objective: Any
) -> None:
    first, second = two_processes(training_ranks.train_on_nan, objective, str(tmp_path))
    assert "the loss is not finite at step 1, on another process" in first
    assert "the loss is nan at step 1; the terms of samples" in second


def test_ranks_with_a_layer_that_the_loss_does_not_read_name_it(
    two_processes: Any, tmp_path: Path
) -> None:
    """Each would wait for its gradient; on one process it is left as it is."""
    line = "method.spare.weight and 1 more parameters got no gradient"
    for message in two_processes(training_ranks.train_with_a_layer_that_is_not_read, str(tmp_path)):
        assert message.startswith(line)


@pytest.mark.parametrize("dtype", [torch.int16, torch.bool, torch.float64])
def test_ranks_have_the_numbers_of_the_first(two_processes: Any, dtype: torch.dtype) -> None:
    first, second = two_processes(training_ranks.share_table, dtype)
    torch.testing.assert_close(second.values, first.values)
    torch.testing.assert_close(dict(second.extras), dict(first.extras), rtol=0, atol=0)


@pytest.mark.parametrize("size", [2, 7, 8])
def test_rows_of_all_ranks_are_joined_in_order(two_processes: Any, size: int) -> None:
    for found in two_processes(training_ranks.gather_chunks, size):
        assert found[:, 0].tolist() == list(range(size))


def test_a_condition_that_fails_on_one_rank_stops_all(two_processes: Any) -> None:
    first, second = two_processes(training_ranks.fail_on_first)
    assert first == "no"
    assert "the first process says why" in second


@pytest.mark.parametrize(
    ("change", "version", "words"),
    [
        ({"seed": 1}, "1.0", "fit.seed: 0 -> 1"),
        ({}, "1.1", 'versions.ccl-plugins: "1.0" -> "1.1"'),
    ],
)
def test_ranks_of_another_run_are_told_at_the_start(
    two_processes: Any, tmp_path: Path, change: dict[str, Any], version: str, words: str
) -> None:
    both = two_processes(training_ranks.train_with_other_settings, change, version, str(tmp_path))
    begin = f"process 1 is of another run than process 0: {words}: start all"
    assert [each.startswith(begin) for each in both] == [True, True], both
    assert not (tmp_path / "checkpoints").exists()


def test_ranks_that_begin_at_other_steps_are_told_at_the_start(
    two_processes: Any, tmp_path: Path
) -> None:
    """As where the run's folder is on a disk that not all machines see."""
    both = two_processes(training_ranks.resume_on_first, str(tmp_path))
    begin = "process 1 is of another run than process 0: resumed from step: 2 -> null"
    assert [each.startswith(begin) for each in both] == [True, True], both


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("samples", "12 samples, not 20"),
        ("label", "column 'label' has other values"),
        ("images", "images differ"),
    ],
)
def test_ranks_that_see_different_data_are_told_at_the_start(
    two_processes: Any, tmp_path: Path, change: str, words: str
) -> None:
    both = two_processes(training_ranks.train_on_other_data, change, str(tmp_path))
    assert both == [f"process 1 sees other data than process 0: train split: {words}"] * 2
    assert not (tmp_path / "checkpoints").exists()

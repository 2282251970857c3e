"""Two ranks train as one process does, whatever the number of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import training_ranks


def test_two_ranks_train_as_one_process(two_processes: Any, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    weights, table = training_ranks.train(str(tmp_path / "one"), 1)
    for found, found_table in two_processes(training_ranks.train_as_rank, str(tmp_path / "two")):
        torch.testing.assert_close(found, weights, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found_table, table)


@pytest.mark.parametrize("size", [2, 7, 8])
def test_rows_of_all_ranks_are_joined_in_order(two_processes: Any, size: int) -> None:
    for found in two_processes(training_ranks.gather_chunks, size):
        assert found[:, 0].tolist() == list(range(size))


def test_a_condition_that_fails_on_one_rank_stops_all(two_processes: Any) -> None:
    first, second = two_processes(training_ranks.fail_on_first)
    assert first == "no"
    assert "the first process says why" in second

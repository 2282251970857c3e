"""Conditions, and the batches sampled by them, are the same on two processes as on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import condition_ranks

pytestmark = pytest.mark.filterwarnings("ignore:condition .* is missing:UserWarning")


@pytest.mark.parametrize(
    "name",
    [
        "clusters",
        "clusters of keys",
        "clusters of a sample",
        "clusters of a sample, in a file",
        "lacking",
    ],
)
def test_ranks_share_the_tables_and_the_batches_of_one_process(
    two_processes: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    tables, batches = condition_ranks.train(str(tmp_path / "one"), 1, name)
    first, second = two_processes(condition_ranks.train_as_rank, str(tmp_path / "two"), name)
    for found, _ in (first, second):
        torch.testing.assert_close(found, tables)
    assert [a + b for a, b in zip(first[1], second[1], strict=True)] == batches
    assert len(tables) == 3
    if name.startswith("clusters"):
        # Each sample is a class in the warm-up; then clusters, and then clusters of other weights.
        assert [len(table.unique()) for table in tables] == [30, 3, 3]
        assert not [*tmp_path.glob("*/checkpoints/embeddings*")]
    else:
        seen = {i for batch in batches for i in batch}
        assert seen == {i for i in range(30) if i % 5}

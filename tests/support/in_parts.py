"""The loss of some anchors at a time, on one process or as a rank of several."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from ccl_plugins.pairs import Pairs
from ccl_plugins.testing.objective_batches import RawBatch, on_each_rank


class InParts(torch.nn.Module):
    """An objective that takes ``size`` anchors at a time; None: all."""

    def __init__(self, build: Callable[[], Any], size: int | None) -> None:
        super().__init__()
        self.objective, self.size = build(), size
        self.embedding = self.objective.embedding

    def loss(self, pairs: Pairs) -> Tensor:
        return self.objective.loss(replace(pairs, anchors_at_once=self.size))


def losses(
    cases: list[tuple[Callable[[], Any], RawBatch]], size: int | None
) -> list[tuple[Tensor, list[Tensor]]]:
    """Value and gradients of each case, on this rank's part of its batch."""
    return [on_each_rank(functools.partial(InParts, build, size), batch) for build, batch in cases]


def as_rank(rank: int, world: int, folder: str, cases: Any, size: int | None) -> None:
    """`losses` as one of several processes, into a file of its own."""
    torch.set_num_threads(1)
    where = f"file://{folder}/meet"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=world)
    torch.save(losses(cases, size), Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()

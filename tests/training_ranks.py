"""What a rank of a pair does in the tests of training on several processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from training_fakes import FakeDataset, make_parts

from ccl_plugins.methods import SimCLR
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.training import FitSettings, fit
from ccl_plugins.training.checkpointing import newest
from ccl_plugins.training.ranks import chunk, gather_rows, on_first, rank


class Small(nn.Sequential):
    num_features = 8

    def __init__(self) -> None:
        torch.manual_seed(0)
        # Layer normalisation: SyncBatchNorm does not run on a CPU.
        super().__init__(nn.Flatten(), nn.Linear(48, 8), nn.LayerNorm(8), nn.ReLU())


class Projected:
    """A refreshed condition that asks for the embeddings of all ranks."""

    life, measure = "refreshed", "continuous"

    def fit(self, dataset: Any, embed: Any, previous: Any) -> Tensor:
        return embed()


def train(folder: str, devices: int) -> tuple[dict[str, Tensor], Tensor]:
    """Train for two epochs; the weights and the condition's last table."""
    torch.manual_seed(0)
    method = SimCLR(hidden=8, dim=4, batch_norm=False, backbone=Small())
    parts = make_parts(
        dataset=FakeDataset(21),
        method=method,
        objective=InfoNCE(),
        conditions={"condition": Projected()},
    )
    settings = FitSettings(2, 8, workers=0, devices=devices, precision="64-true", accumulate=2)
    fit(parts, settings, Path(folder), {}, progress=False)
    saved = newest(Path(folder) / "checkpoints")[1]
    return method.state_dict(), saved["ccl_plugins"]["tables"]["condition"]["values"]


def train_as_rank(folder: str) -> tuple[dict[str, Tensor], Tensor]:
    """`train`, with what a launcher tells each process."""
    told = {"LOCAL_RANK": str(rank()), "NODE_RANK": "0", "WORLD_SIZE": "2"}
    told |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    os.environ.update(told)
    try:
        return train(folder, 2)
    finally:
        for name in told:
            os.environ.pop(name, None)  # Lightning takes some away itself


def gather_chunks(size: int) -> Tensor:
    """Every rank's rows, joined."""
    return gather_rows(torch.tensor(list(chunk(size)))[:, None], size)


def fail_on_first() -> str:
    """What each rank raises where a condition cannot be fitted."""

    def fit_it(embed: Any) -> Any:
        embed()
        raise ValueError("no")

    try:
        on_first(fit_it, lambda: torch.zeros(1))
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""

"""Functions that each of two ranks runs in the tests of conditions on several processes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback
from support.training_fakes import FakeDataset, fit, make_parts
from support.training_ranks import as_rank, make_method
from torch import Tensor

from ccl_plugins.conditions import Clusters
from ccl_plugins.files import mapped
from ccl_plugins.objectives import InfoNCE
from ccl_plugins.samplers import SameCondition
from ccl_plugins.training.settings import FitSettings


class Incomplete:
    """Class ids; every fifth is missing."""

    refresh, value_type, missing = "never", "categorical", "drop"

    def fit(self, split: Any, embed: Any, previous: Any) -> Tensor:
        ids = torch.arange(len(split)) % 3
        return ids.masked_fill(torch.arange(len(split)) % 5 == 0, -1)


class Watch(Callback):
    """Keeps the table of every epoch and the samples of every batch, those of this process."""

    def __init__(self) -> None:
        self.tables: list[Tensor] = []
        self.batches: list[list[int]] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        if number == 0:
            self.tables.append(module.tables["condition"].values.clone())
        self.batches.append(batch.index.tolist())


def train(folder: str, devices: int, name: str) -> tuple[list[Tensor], list[list[int]]]:
    """The tables and batches of three epochs."""
    of_keys = name == "clusters of keys"
    samples = 20 if "of a sample" in name else None
    clusters = Clusters(
        3, "key" if of_keys else "embedding", warmup=1, backend="sklearn", samples=samples
    )
    parts = make_parts(
        dataset=FakeDataset(30),
        method=make_method("moco_v2" if of_keys else "simclr"),
        objective=InfoNCE(),
        conditions={"condition": Incomplete() if name == "lacking" else clusters},
        sampler=partial(SameCondition, "repeat"),
        sampler_on="condition",
    )
    settings = FitSettings(3, 8, workers=0, devices=devices, precision="64-true")
    watch = Watch()
    before, mapped.LARGE = mapped.LARGE, 0 if "in a file" in name else mapped.LARGE
    try:
        fit(parts, settings, Path(folder), {}, callbacks=[watch], progress=False)
    finally:
        mapped.LARGE = before
    return watch.tables, watch.batches


def train_as_rank(folder: str, name: str) -> Any:
    """`train`, with the environment that a launcher gives each process."""
    return as_rank(lambda: train(folder, 2, name))

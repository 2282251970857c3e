"""A pipeline whose training is monitored, and what its monitors log."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback
from pytorch_lightning.loggers import Logger
from support.training_fakes import fit
from support.training_ranks import as_rank

import ccl_plugins as ccl
from ccl_plugins.watching.monitor import Costs, Monitor

N = 64
_GENERATOR = torch.Generator().manual_seed(0)
ROWS = {
    "features": torch.randn(N, 4, generator=_GENERATOR),
    "label": torch.arange(N) % 3,
    "age": torch.rand(N, generator=_GENERATOR),
    "group": torch.arange(N) % 5,
}


class Seen(Logger):
    """Keeps what the monitors log, by step."""

    name, version = "seen", ""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        found = {k.removeprefix("monitor/"): v for k, v in metrics.items() if "monitor/" in k}
        if found:
            assert step is not None
            self.steps[step] = found

    def log_hyperparams(self, *_: Any, **__: Any) -> None: ...


EACH_EPOCH = {"every_epochs": 1}


def pipeline(method: str = "simclr", monitor: Any = EACH_EPOCH, **settings: Any) -> ccl.Pipeline:
    """Fair-CCLK on ages, with class ids that a sampler would read; 4 batches in an epoch."""
    options: dict[str, Any] = {"hidden": 8, "dim": 4, "batch_norm": False}
    if method == "moco_v2":
        options |= {"queue_size": 32, "momentum": 0.9, "symmetric": True}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "nothing in this pipeline reads the condition clusters")
        return ccl.Pipeline(
            dataset=ccl.create("dataset", "features", train=ROWS, test=ROWS),
            backbone=ccl.backbone("mlp", in_features=4, hidden=[8], batch_norm=False),
            method=ccl.method(method, **options),
            transform="noise",
            objective=ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=0.1), on="age"),
            conditions={
                "age": ccl.condition("column", name="age"),
                "clusters": ccl.condition("clusters", k=3),
            },
            sampler=ccl.sampler("uniform"),
            evaluate=[
                "knn",
                {"use": "regression", "column": "age"},
                {"use": "knn", "column": "group"},
            ],
            fit={"epochs": 3, "batch_size": 16, "workers": 0, "log_every": 2, **settings},
            monitor=monitor,
        )


def train(
    folder: Path,
    method: str = "simclr",
    monitor: Any = EACH_EPOCH,
    fit: Any = None,
    **settings: Any,
) -> tuple[Seen, ccl.Run]:
    """Train, and return what was logged."""
    seen = Seen()
    options = {"progress": False, **(fit or {})}
    run = pipeline(method, monitor, **settings).fit(out=folder, logger=seen, **options)
    return seen, run


def train_parts(
    folder: str, devices: int, method: str, resume: bool = False, **settings: Any
) -> Any:
    """What the monitor logs on this process, the method's state, and the bank after each batch."""
    composed = pipeline(method, {"every_steps": 4}, devices=devices, **settings)
    torch.manual_seed(0)
    parts, costs, seen = composed.build(), Costs(), Seen()
    published = Published()
    callbacks = [costs, Monitor(composed.monitor, costs), published]
    options: dict[str, Any] = {"callbacks": callbacks, "loggers": [seen], "progress": False}
    fit(parts, composed.settings, Path(folder), {}, resume, **options)
    return published.steps, parts.method.state_dict(), published.banks


def train_as_rank(folder: str, method: str, settings: Any) -> Any:
    """`train_parts`, with what a launcher tells each process."""
    return as_rank(lambda: train_parts(folder, 2, method, **settings))


class Published(Callback):
    """Keeps what other callbacks of this process find, and the bank after each batch."""

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, float]] = {}
        self.banks: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        found = {k: float(v) for k, v in trainer.callback_metrics.items() if "monitor/" in k}
        if found:
            self.steps[trainer.global_step] = found

    def on_after_backward(self, trainer: Any, module: Any) -> None:
        (monitor,) = (each for each in trainer.callbacks if isinstance(each, Monitor))
        self.banks += monitor.bank.read()
